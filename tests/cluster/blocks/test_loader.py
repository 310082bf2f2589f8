"""Uploads store files on all planned nodes, and downloads return them while one good replica is left."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from schedbed.cluster.blocks import loader
from schedbed.cluster.blocks.block_errors import BlockUnavailable, PathNotFound
from schedbed.cluster.blocks.dataplane import DataPlane
from schedbed.cluster.blocks.loader import fetch_file, store_file, upload, upload_all
from schedbed.cluster.spec import BlockSettings
from schedbed.tasks.appkit.app_catalogue import generate
from schedbed.tasks.errors import BadInput
from schedbed.tasks.workloads.planned import InputFile
from tests.harness.block_store import TOKEN, Cluster, fake_cluster

SETTINGS = BlockSettings(size_bytes=1000, replication=2)


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader, "RETRY_S", 0.0)


async def load(cluster: Cluster, *files: InputFile) -> None:
    await upload_all(files, cluster.door, cluster.agents.urls, TOKEN, SETTINGS)


async def fetch(cluster: Cluster, path: str) -> bytes:
    blocks = await cluster.door.locate(path)
    return b"".join([piece async for piece in fetch_file(blocks, cluster.agents.urls, TOKEN)])


def real_file(folder: Path, length: int) -> tuple[InputFile, bytes]:
    data = bytes(i * i % 251 for i in range(length))
    (folder / "books.txt").write_bytes(data)
    blocks = (1000,) * (length // 1000) + ((length % 1000,) if length % 1000 else ())
    return InputFile(
        path="/in/books", source="file", blocks=blocks, real_path=str(folder / "books.txt")
    ), data


def test_a_real_file_is_stored_on_all_planned_nodes_and_comes_back(tmp_path: Path) -> None:
    async def story() -> None:
        file, data = real_file(tmp_path, 2500)
        async with fake_cluster(3) as cluster:
            await upload(file, cluster.door, cluster.agents.urls, TOKEN, SETTINGS)
            for block in await cluster.door.locate("/in/books"):
                assert len(block["nodes"]) == 2
                for node in block["nodes"]:
                    stored = cluster.agents.disks[node][block["block"]]
                    assert stored == data[block["offset"] : block["offset"] + block["length"]]
            assert await fetch(cluster, "/in/books") == data
            assert cluster.names.fsck()["under_replicated"] == []

    asyncio.run(story())


def test_generated_and_filler_files_have_the_planned_blocks() -> None:
    async def story() -> None:
        text = InputFile(path="/in/t", source="generate", generate="text", seed=3, blocks=(1000, 1000, 300))
        filler = InputFile(path="/in/f", source="filler", blocks=(700, 900))
        async with fake_cluster(2) as cluster:
            await load(cluster, text, filler)
            assert await fetch(cluster, "/in/t") == b"".join(generate("text", 2300, 3))
            assert len(await fetch(cluster, "/in/f")) == 1600
            assert [b["length"] for b in await cluster.door.locate("/in/f")] == [700, 900]

    asyncio.run(story())


def test_generated_data_that_ends_a_little_early_makes_shorter_blocks() -> None:
    async def story() -> None:
        records = InputFile(
            path="/in/r", source="generate", generate="records", seed=3, blocks=(1000, 1000, 90)
        )
        async with fake_cluster(2) as cluster:
            await load(cluster, records)
            assert [b["length"] for b in await cluster.door.locate("/in/r")] == [1000, 1000, 0]
            assert await fetch(cluster, "/in/r") == b"".join(generate("records", 2090, 3))
            assert cluster.names.fsck()["missing"] == []

    asyncio.run(story())


def test_a_block_that_did_not_reach_all_nodes_is_sent_again(tmp_path: Path) -> None:
    async def story() -> None:
        file, data = real_file(tmp_path, 1000)
        async with fake_cluster(2) as cluster:
            cluster.agents.refuse = {"n1": 1, "n2": 1}
            await load(cluster, file)
            assert [disk["blk_0000000001"] for disk in cluster.agents.disks.values()] == [data, data]

    asyncio.run(story())


@pytest.mark.parametrize("dead", [("n1",), ("n2",), ("n1", "n2")])
def test_full_nodes_are_left_out_and_the_namenode_repairs_their_replicas(
    tmp_path: Path, dead: tuple[str, ...]
) -> None:
    async def story() -> None:
        file, data = real_file(tmp_path, 4500)
        async with fake_cluster(6) as cluster:
            cluster.agents.refuse = dict.fromkeys(dead, 10**6)
            await load(cluster, file)
            assert await fetch(cluster, "/in/books") == data
            settings = BlockSettings(size_bytes=1000, replication=2)
            async with DataPlane(cluster.agents.urls, TOKEN) as plane:
                await store_file("/a", _pieces(data), cluster.door, plane, settings)
            assert await fetch(cluster, "/a") == data
            assert not any(cluster.agents.disks[node] for node in dead)
            blocks = [*await cluster.door.locate("/a"), *await cluster.door.locate("/in/books")]
            missing = [block for block in blocks if len(block["nodes"]) < 2]
            assert cluster.names.fsck()["under_replicated"] == sorted(block["block"] for block in missing)
            orders = [
                order for node in cluster.agents.disks for order in cluster.names.heartbeat(101.0, node)
            ]
            copied = {order["block"] for order in orders if order["type"] == "replicate"}
            assert bool(copied) == bool(missing)

    asyncio.run(story())


async def _pieces(data: bytes) -> AsyncIterator[bytes]:
    for at in range(0, len(data), 300):
        yield data[at : at + 300]


def test_an_upload_that_fails_for_good_says_which_block_and_why(tmp_path: Path) -> None:
    async def story() -> None:
        file, _ = real_file(tmp_path, 1500)
        async with fake_cluster(2) as cluster:
            cluster.agents.refuse = {"n1": 99, "n2": 99}
            with pytest.raises(BlockUnavailable, match=r"/in/books: block blk_.*disk full"):
                await load(cluster, file)
            assert not (await cluster.door.stat("/in/books"))["complete"]

    asyncio.run(story())


@pytest.mark.parametrize("kept", [None, 1200])
def test_a_real_file_that_vanishes_or_shrinks_is_bad_input(tmp_path: Path, kept: int | None) -> None:
    async def story() -> None:
        file, data = real_file(tmp_path, 2500)
        source = tmp_path / "books.txt"
        source.unlink() if kept is None else source.write_bytes(data[:kept])
        async with fake_cluster(2) as cluster:
            with pytest.raises(BadInput, match=r"books\.txt"):
                await load(cluster, file)

    asyncio.run(story())


def test_a_read_goes_on_at_the_next_replica_where_one_broke_off(tmp_path: Path) -> None:
    async def story() -> None:
        file, data = real_file(tmp_path, 2000)
        async with fake_cluster(2) as cluster:
            await load(cluster, file)
            for block in await cluster.door.locate("/in/books"):
                cluster.agents.rotten.add((block["nodes"][0], block["block"]))
            assert await fetch(cluster, "/in/books") == data
            assert len(cluster.agents.gets) == 4

    asyncio.run(story())


def test_a_read_without_any_good_replica_names_the_block_and_each_failure(tmp_path: Path) -> None:
    async def story() -> None:
        file, _ = real_file(tmp_path, 1000)
        async with fake_cluster(2) as cluster:
            await load(cluster, file)
            cluster.agents.disks["n1"].clear()
            cluster.agents.rotten.add(("n2", "blk_0000000001"))
            with pytest.raises(BlockUnavailable, match=r"blk_0000000001.*404 no such block"):
                await fetch(cluster, "/in/books")

    asyncio.run(story())


def test_a_range_of_a_file_is_read_from_the_blocks_it_touches(tmp_path: Path) -> None:
    async def story() -> None:
        file, data = real_file(tmp_path, 3000)
        async with fake_cluster(2) as cluster:
            await load(cluster, file)
            blocks = await cluster.door.locate("/in/books")
            async with DataPlane(cluster.agents.urls, TOKEN) as plane:
                got = b"".join([piece async for piece in plane.read(blocks, 990, 1010)])
            assert got == data[990:1010]
            assert len(cluster.agents.gets) == 2

    asyncio.run(story())


def test_a_stream_is_cut_into_blocks_and_a_broken_one_leaves_nothing() -> None:
    async def pieces(count: int, then: Exception | None = None) -> AsyncIterator[bytes]:
        for index in range(count):
            yield bytes([index]) * 700
        if then is not None:
            raise then

    async def story() -> None:
        async with fake_cluster(2) as cluster, DataPlane(cluster.agents.urls, TOKEN) as plane:
            await store_file("/a", pieces(4), cluster.door, plane, SETTINGS)
            assert [b["length"] for b in await cluster.door.locate("/a")] == [1000, 1000, 800]
            assert await fetch(cluster, "/a") == b"".join(bytes([i]) * 700 for i in range(4))
            with pytest.raises(ValueError, match="gone"):
                await store_file("/b", pieces(2, ValueError("gone")), cluster.door, plane, SETTINGS)
            with pytest.raises(PathNotFound):
                await cluster.door.stat("/b")

    asyncio.run(story())
