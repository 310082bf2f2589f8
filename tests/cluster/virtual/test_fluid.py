"""Attempts that share CPU, disk and network: times and counters by hand, without any other latencies."""

from __future__ import annotations

from typing import Any

import pytest

from schedbed.cluster.spec import LinkRates
from schedbed.cluster.virtual.fluid.fluid import FluidEmulation
from schedbed.cluster.virtual.latencies import NO_LATENCIES, Latencies
from tests.harness.simulation import (
    MB,
    Blocks,
    map_plan,
    node,
    outputs,
    reduce_plan,
    reports,
    run,
)


def cluster(store: Blocks | None = None, names: str = "n0 n1 n2", **more: Any) -> FluidEmulation:
    emulation = FluidEmulation(store or Blocks(), NO_LATENCIES, keeps_consumed=True, **more)
    for name in names.split():
        emulation.node_up(0.0, node(name, rack="r1" if name > "n1" else "r0"))
    return emulation


def ends(emulation: FluidEmulation) -> dict[str, float]:
    """Return the end time of each attempt, a dictionary from kind and index, such as `m_0`, to seconds."""
    return {name[6:9]: report.end_s for name, report in reports(run(emulation)).items()}


def test_three_attempts_share_two_cores() -> None:
    """Three attempts with 4 s of CPU each share two cores: each has 2/3 of a core and ends at 6 s."""
    emulation = cluster()
    for index in range(3):
        emulation.launch(0.0, "n0", map_plan(index, cpu_s=4.0))
    assert ends(emulation) == pytest.approx({"m_0": 6.0, "m_1": 6.0, "m_2": 6.0})
    assert emulation.usage(6.0, "n0").cpu_util == pytest.approx(1.0)


def test_an_attempt_never_gets_more_than_a_core() -> None:
    emulation = cluster()
    emulation.launch(0.0, "n0", map_plan(0, cpu_s=4.0))
    done = reports(run(emulation))["job_1_m_0_0"]
    assert (done.end_s, done.counters.cpu_s) == (4.0, 2.0)
    assert emulation.usage(4.0, "n0").cpu_util == pytest.approx(0.5)


def test_reading_and_computing_overlap_and_the_disk_is_shared() -> None:
    """Map a reads 300 MB with 1 s of CPU; map b reads 80 MB with 8 s of CPU, at no more than 10 MB/s.

    The disk has 90 MB/s left for a, which ends after 300 / 90 s. b ends with its CPU after 8 s.
    """
    emulation = cluster(Blocks({"a": ["n0"], "b": ["n0"]}))
    emulation.launch(0.0, "n0", map_plan(0, [("a", 300 * MB)], cpu_s=1.0))
    emulation.launch(0.0, "n0", map_plan(1, [("b", 80 * MB)], cpu_s=8.0))
    assert ends(emulation) == pytest.approx({"m_0": 300 / 90, "m_1": 8.0})


def test_a_remote_read_is_bound_at_both_ends() -> None:
    """Two nodes read 100 MB each from n0 and share its 50 MB/s of network: 4 s.

    The disk of n0 has 50 MB/s left for the map that runs on n0.
    """
    emulation = cluster(Blocks({"a": ["n0"]}))
    for index, name in enumerate(("n1", "n2")):
        emulation.launch(0.0, name, map_plan(index, [("a", 100 * MB)]))
    emulation.launch(0.0, "n0", map_plan(2, [("a", 300 * MB)]))
    seen = reports(run(emulation))
    # n0's map: 4 s at 50 MB/s, then 100 MB at 100 MB/s.
    assert {name[6:9]: each.end_s for name, each in seen.items()} == pytest.approx(
        {"m_0": 4.0, "m_1": 4.0, "m_2": 5.0}
    )
    assert seen["job_1_m_0_0"].counters.read_remote_bytes == 100 * MB
    assert emulation.usage(5.0, "n0").net_util == pytest.approx(200 / 250)


def test_an_uplink_binds_what_leaves_the_rack() -> None:
    """The read by n2 in another rack has the uplink's 20 MB/s; the one by n1 has the other 30 MB/s of n0."""
    emulation = cluster(Blocks({"a": ["n0"]}), links=LinkRates(up_bps=20.0 * MB))
    emulation.launch(0.0, "n1", map_plan(0, [("a", 90 * MB)]))
    emulation.launch(0.0, "n2", map_plan(1, [("a", 100 * MB)]))
    assert ends(emulation) == pytest.approx({"m_0": 3.0, "m_1": 5.0})


def test_spills_are_written_read_and_written_again() -> None:
    """A map reads 100 MB in 2 s of CPU; its spills then need the disk for 5 s.

    For 100 MB of output, 300 MB are written in all and 200 MB are read back.
    """
    emulation = cluster(Blocks({"a": ["n0"]}))
    plan = map_plan(
        0, [("a", 100 * MB)], cpu_s=2.0, sort_cpu_s=1.0, output_bytes=100 * MB, spill_bytes=300 * MB
    )
    emulation.launch(0.0, "n0", plan)
    run(emulation, 2.0)
    (status,) = emulation.statuses(4.0, "n0")
    assert (status.phase, status.progress) == ("sort", 0.95)
    done = reports(run(emulation))[plan.attempt]
    assert done.end_s == pytest.approx(7.0)
    assert (done.counters.spill_bytes, done.counters.output_bytes) == (300 * MB, 100 * MB)


def test_output_is_bound_by_each_node_of_the_pipeline() -> None:
    """Blocks of 60 and 40 MB are written to n0, n1 and n2 at the network's 50 MB/s.

    At the same time n1 reads 200 MB from its disk.
    """
    store = Blocks({"b": ["n1"]}, others=["n1", "n2"])
    emulation = cluster(store)
    plan = map_plan(0, output="/out/p", replication=3, output_bytes=100 * MB, block_bytes=60 * MB)
    emulation.launch(0.0, "n0", plan)
    emulation.launch(0.0, "n1", map_plan(1, [("b", 200 * MB)]))
    assert emulation.statuses(1.0, "n0")[0].progress == pytest.approx(0.5)
    # n1's disk: 50 MB/s for the pipeline, 50 MB/s for the read, then 100 MB/s for its last 100 MB.
    assert ends(emulation) == pytest.approx({"m_0": 2.0, "m_1": 3.0})
    assert store.files == {"/out/p": [60 * MB, 40 * MB]}
    assert emulation.usage(3.0, "n2").disk_util == pytest.approx(100 / 300)


def test_a_reduce_fetches_while_maps_run_then_merges_computes_and_writes() -> None:
    """Maps end at 1 and 5 s with 50 MB each. The reduce fetches half of each: 25 MB at 50 MB/s, twice.

    25 MB stay in memory (a quarter of 100 MB). The other 25 MB go to the disk in 0.25 s and are read back as
    fast during 1 s of sorting. Then come 2 s of CPU during a write of 100 MB.
    """
    store = Blocks()
    emulation = cluster(store)
    emulation.launch(0.0, "n0", map_plan(0, cpu_s=1.0, output_bytes=50 * MB, reduces=2))
    emulation.launch(0.0, "n1", map_plan(1, cpu_s=5.0, output_bytes=50 * MB, reduces=2))
    plan = reduce_plan(1, cpu_s=2.0, sort_cpu_s=1.0, output="/o", output_bytes=100 * MB, start_s=1.0)
    emulation.launch(0.0, "n2", plan)
    run(emulation, 1.0)
    emulation.map_outputs(1.0, "n2", outputs((0, "n0"), done=False))
    run(emulation, 5.0)
    assert emulation.statuses(5.0, "n2")[0].progress == pytest.approx(1 / 6)
    emulation.map_outputs(5.0, "n2", outputs((1, "n1")))
    done = reports(run(emulation))[plan.attempt]
    counters = done.counters
    assert (counters.shuffle_end, counters.sort_end, done.end_s) == pytest.approx((5.75, 6.75, 8.75))
    assert (counters.shuffle_bytes, counters.spill_bytes, counters.output_bytes) == (
        50 * MB,
        25 * MB,
        100 * MB,
    )
    assert store.files == {"/o": [100 * MB]}
    assert emulation.pop_consumed(plan.attempt) == {0: "job_1_m_0_0", 1: "job_1_m_1_0"}


def test_overheads_take_time_on_slow_cores() -> None:
    """On cores of half speed, an end is reported 0.1 + 0.05 / 0.5 s late.

    A fetch of 10 bytes takes 0.3 + 0.1 / 0.5 s. The start takes no longer than the plan says.
    """
    slow = Latencies(end_s=0.1, end_cpu_s=0.05, fetch_s=0.3, fetch_cpu_s=0.1, core_share=1.0)
    assert slow.launch(0.1) == pytest.approx(0.024)
    emulation = FluidEmulation(Blocks(), slow)
    for name in ("n0", "n1"):
        emulation.node_up(0.0, node(name))
    emulation.launch(0.0, "n0", map_plan(0, cpu_s=1.0, output_bytes=10))
    ((at_s, (_, said)),) = run(emulation)
    assert (at_s, said.end_s) == pytest.approx((1.2, 1.0))  # pyright: ignore[reportAttributeAccessIssue]
    emulation.launch(2.0, "n1", reduce_plan())
    emulation.map_outputs(2.0, "n1", outputs((0, "n0")))
    ((at_s, (_, said)),) = run(emulation)
    assert said.end_s == pytest.approx(2.5)  # pyright: ignore[reportAttributeAccessIssue]


def test_known_durations_do_not_contend() -> None:
    """Three attempts with a recorded duration of 4 s on two cores end after 4 s.

    Remote reads take additional time, and share the network.
    """
    emulation = cluster(Blocks({"a": ["n0"]}))
    for index in range(3):
        emulation.launch(0.0, "n0", map_plan(index, [("a", 100 * MB)], duration_s=4.0))
    for index in (3, 4):
        emulation.launch(0.0, "n1", map_plan(index, [("a", 100 * MB)], duration_s=4.0))
    assert ends(emulation) == pytest.approx({"m_0": 4.0, "m_1": 4.0, "m_2": 4.0, "m_3": 8.0, "m_4": 8.0})


@pytest.mark.parametrize("reduces", [1, 2])
def test_a_reduce_fetches_no_faster_than_the_limit_whoever_shares_its_node(reduces: int) -> None:
    """Each reduce fetches 2 x 80 MB in 8 s: its limit is 20 MB/s although the node has 50 MB/s."""
    emulation = cluster(names="n0 n1 n2 n3", fetch_bps=20.0 * MB)
    for index, name in enumerate(("n0", "n1")):
        emulation.launch(0.0, name, map_plan(index, output_bytes=80 * MB * reduces, reduces=reduces))
    for index in range(reduces):
        emulation.launch(0.0, "n3", reduce_plan(index, reduces=reduces, memory_bytes=0))
    run(emulation, 20.0)
    emulation.map_outputs(20.0, "n3", outputs((0, "n0"), (1, "n1")))
    took = {name[6:9]: each.end_s - 20.0 for name, each in reports(run(emulation)).items()}
    assert [took[f"r_{index}"] for index in range(reduces)] == pytest.approx([8.0] * reduces)
