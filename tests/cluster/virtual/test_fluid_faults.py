"""Faults while attempts share resources: lost, slow and frozen nodes, partitions, kills and failures."""

from __future__ import annotations

import math

import pytest

from schedbed.cluster.messages import AttemptReport
from schedbed.cluster.virtual.fluid.fluid import FluidEmulation
from schedbed.cluster.virtual.latencies import NO_LATENCIES
from tests.harness.simulation import (
    MB,
    Blocks,
    failures,
    map_plan,
    node,
    outputs,
    reduce_plan,
    reports,
    run,
)


def cluster(store: Blocks | None = None, names: str = "n0 n1 n2") -> FluidEmulation:
    emulation = FluidEmulation(store or Blocks(), NO_LATENCIES, keeps_consumed=True)
    for name in names.split():
        emulation.node_up(0.0, node(name))
    return emulation


def test_a_slow_node_takes_longer_and_a_frozen_one_stands_still() -> None:
    """10 s of CPU end at 17 s: 4 s at full speed, 4 s at half speed, 5 s frozen, 4 s at full speed."""
    emulation = cluster()
    emulation.launch(0.0, "n0", map_plan(0, cpu_s=10.0))
    emulation.launch(0.0, "n1", map_plan(1, duration_s=10.0))
    for at_s, cpu in ((4.0, 0.5), (8.0, 0.0), (13.0, 1.0)):
        assert not emulation.advance(at_s)
        for name in ("n0", "n1"):
            emulation.set_rates(at_s, name, cpu, cpu, cpu)
    assert emulation.statuses(13.0, "n0")[0].progress == pytest.approx(0.6)
    assert [report.end_s for report in reports(run(emulation)).values()] == pytest.approx([17.0, 17.0])


def test_a_slow_disk_slows_those_who_read_from_it() -> None:
    """A remote read of 100 MB takes 6 s: 50 MB in 1 s at the network's rate, then 50 MB at 100 x 0.1 MB/s."""
    emulation = cluster(Blocks({"a": ["n0"]}))
    emulation.launch(0.0, "n1", map_plan(0, [("a", 100 * MB)]))
    emulation.set_rates(1.0, "n0", 1.0, 0.1, 1.0)
    assert reports(run(emulation))["job_1_m_0_0"].end_s == pytest.approx(6.0)


def test_a_read_goes_on_from_another_replica() -> None:
    """A read of 100 MB uses three replicas: 40 MB from n0 until it dies, 10 MB from n2 until it freezes.

    The read gives up on n2 after 20 s. By the next look 0.3 s later its own disk has a replica: 50 MB in 1 s.
    """
    store = Blocks({"a": ["n0", "n2"]})
    emulation = cluster(store)
    emulation.launch(0.0, "n1", map_plan(0, [("a", 100 * MB)], cpu_s=0.5))
    emulation.node_down(0.8, "n0")
    store.at["a"] = ["n2"]
    emulation.set_rates(1.0, "n2", 0.0, 0.0, 0.0)
    assert not run(emulation, 21.1)
    store.at["a"] = ["n2", "n1"]
    done = reports(run(emulation))["job_1_m_0_0"]
    assert (done.counters.read_remote_bytes, done.counters.read_local_bytes) == (50 * MB, 50 * MB)
    assert done.end_s == pytest.approx(22.3)  # at the pace of the remote read that it began as


def test_input_without_a_replica_fails_after_three_more_looks() -> None:
    """Attempts look for a replica at 0, 0.3, 1.3 and 3.3 s, and read it if one is back by then."""
    store = Blocks()
    emulation = cluster(store)
    emulation.launch(0.0, "n0", map_plan(0, [("a", 100 * MB)]))
    emulation.launch(0.0, "n0", map_plan(1, [("b", 100 * MB)]))
    run(emulation, 2.0)
    store.at["b"] = ["n0"]
    done = reports(run(emulation))
    assert done["job_1_m_0_0"].reason == "OSError: no replica of a could be read (it has none)"
    assert (done["job_1_m_0_0"].end_s, done["job_1_m_1_0"].end_s) == pytest.approx((3.3, 4.3))


def test_a_lost_output_is_told_of_and_its_successor_is_fetched() -> None:
    """A fetch that breaks off at 6 s is tried again after 0.25, 0.5, 1 and 2 s.

    Failures are reported from the second one on.
    """
    emulation = cluster()
    emulation.launch(0.0, "n0", map_plan(0, cpu_s=5.0, output_bytes=100 * MB))
    emulation.launch(0.0, "n1", reduce_plan(cpu_s=3.0))
    run(emulation, 5.0)
    emulation.map_outputs(5.0, "n1", outputs((0, "n0")))
    emulation.node_down(6.0, "n0")
    lost = failures(run(emulation, 10.0))
    assert [at_s for at_s, _ in lost] == [6.25, 6.75, 7.75, 9.75]
    assert lost[0][1].map_attempt == "job_1_m_0_0"
    emulation.map_outputs(10.0, "n1", outputs((0, "n0"), lost=True, done=False))
    emulation.launch(10.0, "n2", map_plan(0, number=1, cpu_s=5.0, output_bytes=100 * MB))
    assert not failures(run(emulation, 15.0))
    emulation.map_outputs(15.0, "n1", outputs((0, "n2"), number=1))
    # 100 MB at 50 MB/s, of which 75 MB go to the disk and back in 0.75 s each, then 3 s of CPU.
    done = reports(run(emulation))["job_1_r_0_0"]
    assert (done.end_s, done.counters.shuffle_bytes) == (pytest.approx(21.5), 100 * MB)
    assert emulation.pop_consumed("job_1_r_0_0") == {0: "job_1_m_0_1"}


def test_what_has_been_fetched_survives_its_node() -> None:
    emulation = cluster()
    emulation.launch(0.0, "n0", map_plan(0, cpu_s=1.0, output_bytes=10 * MB))
    emulation.launch(0.0, "n1", reduce_plan(cpu_s=1.0))
    run(emulation)
    emulation.map_outputs(1.0, "n1", outputs((0, "n0"), done=False))
    run(emulation)
    emulation.node_down(2.0, "n0")
    emulation.map_outputs(3.0, "n1", outputs((0, "n0"), lost=True, done=True))
    assert reports(run(emulation))["job_1_r_0_0"].end_s == pytest.approx(4.0)
    assert emulation.pop_consumed("job_1_r_0_0") == {0: "job_1_m_0_0"}


def test_a_partition_lets_transfers_end_and_no_new_one_begin() -> None:
    emulation = cluster(Blocks({"a": ["n0"]}))
    emulation.launch(0.0, "n1", map_plan(0, [("a", 100 * MB)]))
    emulation.partition(1.0, [["n0"]])
    emulation.launch(1.0, "n2", map_plan(1, [("a", 100 * MB)]))
    done = reports(run(emulation))
    assert done["job_1_m_0_0"].end_s == 2.0
    assert done["job_1_m_1_0"].end_s == pytest.approx(4.3)
    assert done["job_1_m_1_0"].state == "failed"


def test_a_broken_pipeline_goes_on_to_those_before_the_break() -> None:
    """20 MB are written in 1 s at the rate of n1's slow disk; without n1, 80 MB take 1.6 s at 50 MB/s."""
    store = Blocks(others=["n1", "n2"])
    emulation = cluster(store)
    emulation.set_rates(0.0, "n1", 1.0, 0.2, 1.0)
    emulation.launch(0.0, "n0", map_plan(0, output="/o", replication=3, output_bytes=100 * MB))
    emulation.node_down(1.0, "n1")
    assert reports(run(emulation))["job_1_m_0_0"].end_s == pytest.approx(2.6)
    assert store.files == {"/o": [100 * MB]}


def test_a_writer_without_room_fails() -> None:
    emulation = cluster(Blocks(full=True))
    emulation.launch(0.0, "n0", map_plan(0, output="/o", output_bytes=MB, cpu_s=5.0))
    done = reports(run(emulation))["job_1_m_0_0"]
    assert (done.reason, done.end_s) == ("OSError: no node could take a block of /o", 0.0)


def test_attempts_fail_at_their_share_and_at_their_memory() -> None:
    """One attempt fails at half of its 4 s of CPU, and another at a quarter, where it exceeds its memory."""
    emulation = cluster()
    emulation.launch(0.0, "n0", map_plan(0, cpu_s=4.0, fails_after=0.5, failure="bad record"))
    emulation.launch(0.0, "n0", map_plan(1, cpu_s=4.0, memory_peak_bytes=400 * MB))
    done = reports(run(emulation))
    told = [(report.end_s, report.state, report.reason) for report in done.values()]
    assert told == [(1.0, "failed", "over its memory limit of 95 MiB"), (2.0, "failed", "bad record")]
    assert done["job_1_m_0_0"].counters.cpu_s == pytest.approx(1.0)


def test_a_kill_is_told_at_once_with_what_was_done() -> None:
    emulation = cluster(Blocks({"a": ["n0"]}))
    emulation.launch(0.0, "n0", map_plan(0, [("a", 100 * MB)], cpu_s=4.0))
    emulation.launch(0.0, "n0", map_plan(1, cpu_s=2.0, start_s=1.0))
    emulation.advance(0.5)
    for _ in range(2):
        emulation.kill(0.5, "n0", "job_1_m_1_0", "unwanted")
    emulation.kill(1.0, "n0", "job_1_m_0_0", "preempted")
    assert emulation.next_s() == 1.0
    assert not emulation.statuses(1.0, "n0")
    told = [said for _, said in emulation.advance(1.0) if isinstance(said, AttemptReport)]
    assert [(each.state, each.reason, each.start_s, each.end_s) for each in told] == [
        ("killed", "unwanted", 0.0, 0.5),
        ("killed", "preempted", 0.0, 1.0),
    ]
    assert (told[1].counters.cpu_s, told[1].counters.read_local_bytes) == pytest.approx((0.5, 25 * MB))
    assert emulation.next_s() == math.inf


def test_a_node_that_goes_takes_everything_along() -> None:
    """A lost node frees the bandwidth that its attempts used: n2's read has all of n0's network after 1 s."""
    emulation = cluster(Blocks({"a": ["n0"]}))
    for index, name in enumerate(("n1", "n2")):
        emulation.launch(0.0, name, map_plan(index, [("a", 100 * MB)]))
    emulation.launch(0.0, "n1", reduce_plan())
    emulation.node_down(1.0, "n1")
    assert list(reports(run(emulation))) == ["job_1_m_1_0"]
    assert emulation.advance(9.0) == []
    emulation.node_up(9.0, node("n1"))
    assert not emulation.statuses(9.0, "n1")
