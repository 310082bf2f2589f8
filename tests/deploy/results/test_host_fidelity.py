"""Tests that a run on several hosts is judged for each host, and that the message names the host."""

from __future__ import annotations

from typing import Any

from schedbed.deploy.results.fidelity import assess_hosts, combine_hosts
from tests.harness.tables import NODES, table

QUIET = [(float(t), 0.5) for t in range(20)]
BUSY = [(float(t), 1.0) for t in range(20)]
HEARTBEATS = [
    {"t": t / 2, "node": node["node"], "cpu_util": 0.9, "disk_util": 0.1, "net_util": 0.1}
    for t in range(40)
    for node in NODES
]


def host(*nodes: str, **changes: Any) -> dict[str, Any]:
    return {"cores": 4, "clock_offset_s": 0.0, "nodes": list(nodes)} | changes


def judge(loads: dict[str, Any], **changes: Any) -> dict[str, Any]:
    first, *others = (str(node["node"]) for node in NODES)
    return assess_hosts(
        machines="process",
        hosts={"left": host(first), "right": host(*others), "idle": host()} | changes,
        loads=loads,
        nodes=NODES,
        heartbeats=table("heartbeats", HEARTBEATS),
    )


def load(samples: list[tuple[float, float]], lost_s: float | None = None, **more: Any) -> dict[str, Any]:
    return {"samples": samples, "lost_s": lost_s} | more


def test_quiet_hosts_are_trusted_and_one_without_a_part_is_left_out() -> None:
    found = judge({"left": load(QUIET), "right": load(QUIET), "idle": load([])})
    assert found["trusted"] and found["why"] == [] and list(found["hosts"]) == ["left", "right"]
    declared = sum(node["cores"] * node["core_speed"] for node in NODES)
    assert found["limits"]["cpu"]["configured_total"] == declared


def test_the_host_that_was_saturated_is_named() -> None:
    found = judge({"left": load(QUIET), "right": load(BUSY)})
    assert not found["trusted"] and found["host_cpu_saturated"] == 1.0
    assert [sentence[:36] for sentence in found["why"]] == ["Host right: The host's CPU was saturated"[:36]]
    assert found["hosts"]["left"]["trusted"] and not found["hosts"]["right"]["trusted"]


def test_a_host_is_measured_by_its_own_cores_and_by_how_fast_they_are() -> None:
    loads = {"left": load(QUIET), "right": load(QUIET)}
    declared = NODES[0]["cores"] * NODES[0]["core_speed"]
    slow, fast = (
        host(str(NODES[0]["node"]), cores=declared / 2, core_speed_ratio=ratio) for ratio in (1.0, 2.0)
    )
    assert judge(loads, left=slow)["why"][0].startswith("Host left: The nodes together are declared")
    assert judge(loads, left=fast)["why"] == []


def test_a_clock_that_is_off_is_no_doubt_when_it_could_be_read() -> None:
    read, vague, unread = [[1.0, -0.4, 0.001], [11.0, -0.5, 0.002]], [[1.0, -0.4, 0.3]], []
    found = [
        judge({"left": load(QUIET, clock=clock), "right": load(QUIET)}) for clock in (read, vague, unread)
    ]
    assert [fidelity["trusted"] for fidelity in found] == [True, False, False]
    left = found[0]["hosts"]["left"]
    assert (left["clock_offset_s"], left["clock_bound_s"]) == (-0.5, 0.002)
    assert "Host left: Its clock could be compared with the driver's to 0.30 s only" in found[1]["why"][0]
    assert found[2]["why"][0].startswith("Host left: Its clock was never compared")


def test_several_runs_keep_the_worst_of_each_host() -> None:
    good = judge({"left": load(QUIET), "right": load(QUIET)})
    bad = judge({"left": load(QUIET), "right": load(BUSY, lost_s=3.5)})
    both = combine_hosts([good, bad])
    assert both["hosts"]["left"] == good["hosts"]["left"]
    assert both["hosts"]["right"] == bad["hosts"]["right"]
    assert both["hosts"]["right"]["lost_s"] == 3.5 and not both["trusted"]
    assert good["hosts"]["right"]["lost_s"] is None
