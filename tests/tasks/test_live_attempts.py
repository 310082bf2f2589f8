"""Attempts on real agents: whole jobs, bad or missing replicas, rate budgets, and memory limits."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from schedbed.cluster.wire.certificates import make_certificates
from schedbed.cluster.wire.tls import Tls
from schedbed.tasks.appkit.app_catalogue import generate
from schedbed.tasks.apps.sort import check_sorted, record_sum, sample_boundaries
from schedbed.tasks.apps.wordcount import check_wordcount
from schedbed.tasks.specs import Cost, TaskKind
from tests.harness.agents import MiniCluster
from tests.harness.memory_node import a_spec

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]

TEXT = b"".join(generate("text", 900_000, 3))
BLOCKS = [TEXT[:300_000], TEXT[300_000:600_001], TEXT[600_001:]]
with_and_without_tls = pytest.mark.parametrize("tls", [None, make_certificates()], ids=["clear", "TLS"])


def on_cluster(root: Path, story: Callable[[MiniCluster], Awaitable[None]], **settings: Any) -> None:
    async def run() -> None:
        async with MiniCluster(root, **settings) as cluster:
            await story(cluster)

    asyncio.run(run())


def succeeded(reports: list[dict[str, Any]]) -> list[dict[str, Any]]:
    assert {report["state"] for report in reports} == {"succeeded"}, [report["reason"] for report in reports]
    return [report["counters"] for report in reports]


def spec_of_map(cluster: MiniCluster, **changes: Any) -> Any:
    blocks = cluster.files["/in"]
    size = sum(block.length for block in blocks)
    common = {"file": "/in", "file_length": size, "length": size, "blocks": tuple(blocks), "reduces": 1}
    return a_spec(TaskKind.MAP, 0, **{"memory_bytes": 2**30, **common, **changes})


@with_and_without_tls
def test_wordcount_over_two_nodes_is_right_and_its_output_is_replicated(
    tmp_path: Path, tls: Tls | None
) -> None:
    async def story(cluster: MiniCluster) -> None:
        await cluster.put("/in", BLOCKS, ["n1"])
        counters = succeeded(await cluster.job("wordcount", 2, replication=2))
        assert check_wordcount([TEXT], [[cluster.read(f"/out/{part}")] for part in range(2)]) is None
        assert [block.nodes for block in cluster.files["/out/1"]] == [("n2", "n1")]
        assert counters[0]["read_local_bytes"] >= 300_000 and counters[1]["read_remote_bytes"] >= 300_000
        assert all(each["shuffle_bytes"] > 1000 and each["output_bytes"] > 1000 for each in counters[3:])
        cluster.files["/copy"] = [cluster.other_replica(block) for block in cluster.files["/out/1"]]
        assert cluster.read("/copy") == cluster.read("/out/1")

    on_cluster(tmp_path, story, count=2, tls=tls)


def test_sort_writes_blocks_of_the_size_asked_for(tmp_path: Path) -> None:
    data = b"".join(generate("records", 1_000_000, 3))

    async def story(cluster: MiniCluster) -> None:
        await cluster.put("/in", [data[:333_333], data[333_333:]], ["n1"])
        params = {"boundaries": sample_boundaries(lambda at, length: data[at : at + length], len(data), 2, 7)}
        succeeded(await cluster.job("sort", 2, params=params, block_bytes=200_000))
        parts = [cluster.read(f"/out/{part}") for part in range(2)]
        assert check_sorted([[part] for part in parts], record_sum([data])) is None
        assert {block.length for block in cluster.files["/out/0"][:-1]} == {200_000}

    on_cluster(tmp_path, story)


@with_and_without_tls
def test_a_bad_a_missing_and_an_unreachable_replica_are_left_for_the_next(
    tmp_path: Path, tls: Tls | None
) -> None:
    async def story(cluster: MiniCluster) -> None:
        await cluster.put("/in", BLOCKS, ["n1", "n2", "n3"])
        first, second, third = (block.block for block in cluster.files["/in"])
        damaged = cluster.roots["n1"] / "blocks" / first
        damaged.write_bytes(damaged.read_bytes()[:-1] + b"\x00")
        (cluster.roots["n1"] / "blocks" / second).unlink()
        for gone in ("n1", "n2"):
            (cluster.roots[gone] / "blocks" / third).unlink()
        await cluster.talks["n2"].machine.kill()
        report = await cluster.run(spec_of_map(cluster), "n1")
        counters = succeeded([report])[0]
        assert counters["read_local_bytes"] + counters["read_remote_bytes"] >= len(TEXT)
        told = [(args["block"], args["node"]) for method, args in cluster.calls if method == "report_bad"]
        assert {(first, "n1"), (second, "n1"), (third, "n1")} <= set(told)

    on_cluster(tmp_path, story, count=3, tls=tls)


def test_a_block_without_a_replica_fails_the_attempt_and_says_which(tmp_path: Path) -> None:
    async def story(cluster: MiniCluster) -> None:
        await cluster.put("/in", [TEXT[:1000]], ["n1"])
        block = cluster.files["/in"][0].block
        (cluster.roots["n1"] / "blocks" / block).unlink()
        report = await cluster.run(spec_of_map(cluster), "n1")
        assert report["state"] == "failed"
        assert f"no replica of {block} of /in could be read" in report["reason"]

    on_cluster(tmp_path, story)


def test_a_disk_budget_holds_a_map(tmp_path: Path) -> None:
    async def story(cluster: MiniCluster) -> None:
        await cluster.put("/in", BLOCKS, ["n1"])
        report = await cluster.run(spec_of_map(cluster), "n1")
        counters = succeeded([report])[0]
        moved = counters["read_local_bytes"] + counters["spill_bytes"]
        assert report["end_s"] - report["start_s"] >= moved / 1e6

    on_cluster(tmp_path, story, limits="software", disk_bps=1e6)


@with_and_without_tls
def test_a_network_budget_holds_a_remote_read(tmp_path: Path, tls: Tls | None) -> None:
    async def story(cluster: MiniCluster) -> None:
        await cluster.put("/in", BLOCKS, ["n1"])
        report = await cluster.run(spec_of_map(cluster), "n2")
        counters = succeeded([report])[0]
        assert counters["read_remote_bytes"] >= len(TEXT) and counters["read_local_bytes"] == 0
        assert report["end_s"] - report["start_s"] >= len(TEXT) / 1e6

    on_cluster(tmp_path, story, count=2, limits="software", network_bps=1e6, tls=tls)


def test_a_synthetic_attempt_takes_its_time_on_one_emulated_core(tmp_path: Path) -> None:
    async def story(cluster: MiniCluster) -> None:
        spec = a_spec(TaskKind.MAP, 0, app="synthetic", reduces=1, cost=Cost(cpu_s=1.5, write_bytes=1000))
        report = await cluster.run(spec, "n1")
        counters = succeeded([report])[0]
        assert 0.15 <= counters["cpu_s"] < 0.19 and report["end_s"] - report["start_s"] >= 1.4

    on_cluster(tmp_path, story, limits="software", core_speed=0.1)


def test_an_attempt_over_its_memory_says_so_and_the_node_lives(tmp_path: Path) -> None:
    many = b" ".join(b"%x" % (n * 2654435761) for n in range(400_000))

    async def story(cluster: MiniCluster) -> None:
        await cluster.put("/in", [many], ["n1"])
        spec = spec_of_map(cluster, memory_bytes=16 * 2**20)
        report = await cluster.run(spec, "n1")
        assert (report["state"], report["reason"]) == ("failed", "over its memory limit of 16 MiB")
        again = await cluster.run(spec_of_map(cluster, attempt="job_0001_m_000000_1"), "n1")
        succeeded([again])

    on_cluster(tmp_path, story, limits="software")


def test_words_are_counted_the_same_with_little_memory(tmp_path: Path) -> None:
    text = b"".join(b"%x\n" % (n * 2654435761) for n in range(150_000))

    async def story(cluster: MiniCluster) -> None:
        await cluster.put("/in", [text], ["n1"])
        succeeded(await cluster.job("wordcount", 1, memory_bytes=48 * 2**20))
        assert check_wordcount([text], [[cluster.read("/out/0")]]) is None
        assert Counter(text.split()).total() == 150_000

    on_cluster(tmp_path, story, limits="software")
