"""Attempts that do not contend for resources: their times, counters and accidents, computed by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from schedbed.cluster.virtual.exact.exact import ExactEmulation
from schedbed.cluster.virtual.node_model import TaskCost
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


def cluster(store: Blocks | None = None, names: str = "n0 n1 n2") -> ExactEmulation:
    emulation = ExactEmulation(store or Blocks(), keeps_consumed=True)
    for name in names.split():
        emulation.node_up(0.0, node(name))
    return emulation


def test_a_recorded_map_takes_its_duration_and_what_a_remote_read_adds() -> None:
    """A local map ends after 1 + 10 s; a remote one reads 100 MB at 50 MB/s in addition: 1 + 10 + 2 s."""
    emulation = cluster(Blocks({"b": ["n1"]}))
    for name, index in (("n0", 0), ("n1", 1)):
        emulation.launch(0.0, name, map_plan(index, [("b", 100 * MB)], duration_s=10.0, start_s=1.0))
    done = reports(run(emulation))
    remote, local = done["job_1_m_0_0"], done["job_1_m_1_0"]
    assert (local.start_s, local.end_s, remote.end_s) == (1.0, 11.0, 13.0)
    assert (local.counters.read_local_bytes, local.counters.read_remote_bytes) == (100 * MB, 0)
    assert (remote.counters.read_local_bytes, remote.counters.read_remote_bytes) == (0, 100 * MB)


def test_without_a_duration_phases_add_up_at_full_rates() -> None:
    """A map without a recorded duration lasts 5 + 3 s.

    It reads 200 MB at 100 MB/s during 5 s of CPU, and then spills 300 MB during 1 s of CPU.
    """
    emulation = cluster(Blocks({"b": ["n0"]}))
    plan = map_plan(0, [("b", 200 * MB)], cpu_s=5.0, sort_cpu_s=1.0, output_bytes=300 * MB)
    emulation.launch(0.0, "n0", plan)
    (done,) = reports(run(emulation)).values()
    assert done.end_s == 8.0
    assert done.counters.cpu_s == 3.0  # of the host: 6 s on a core of half its speed
    assert (done.counters.spill_bytes, done.partitions) == (300 * MB, (300 * MB,))


def test_only_maps_whose_output_is_shuffled_spill_also_where_they_share_their_cost() -> None:
    emulation = cluster()
    cost = TaskCost(duration_s=5.0, output_bytes=30 * MB)
    for index, changes in enumerate(({"reduces": 0, "output": "/out"}, {}, {"reduces": 0, "output": "/out"})):
        emulation.launch(0.0, "n0", replace(map_plan(index), cost=cost, **changes))
    done = reports(run(emulation))
    assert [done[f"job_1_m_{index}_0"].counters.spill_bytes for index in range(3)] == [0, 30 * MB, 0]


def test_a_reduce_counts_from_the_last_map() -> None:
    emulation = cluster()
    emulation.launch(0.0, "n0", map_plan(0, duration_s=5.0))
    emulation.launch(0.0, "n1", map_plan(1, duration_s=8.0))
    emulation.launch(0.0, "n2", reduce_plan(duration_s=3.0, start_s=1.0))
    run(emulation, 6.0)
    emulation.map_outputs(6.0, "n2", outputs((0, "n0"), done=False))
    assert emulation.statuses(6.0, "n2")[0].progress == pytest.approx(1 / 6)
    run(emulation, 9.0)
    emulation.map_outputs(9.0, "n2", outputs((1, "n1")))
    done = reports(run(emulation))["job_1_r_0_0"]
    assert (done.start_s, done.end_s, done.counters.shuffle_end) == (1.0, 12.0, 9.0)
    assert emulation.pop_consumed("job_1_r_0_0") == {0: "job_1_m_0_0", 1: "job_1_m_1_0"}
    assert emulation.pop_consumed("job_1_r_0_0") == {}


def test_a_slow_node_stretches_what_is_left_and_a_frozen_one_stands_still() -> None:
    """10 s of work last 17 s: 4 s at full speed, 4 s at half speed, 5 s frozen, 4 s at full speed."""
    emulation = cluster()
    emulation.launch(0.0, "n0", map_plan(0, duration_s=10.0))
    for at_s, cpu in ((4.0, 0.5), (8.0, 0.0), (13.0, 1.0)):
        assert not emulation.advance(at_s)
        emulation.set_rates(at_s, "n0", cpu, cpu, cpu)
    assert emulation.statuses(13.0, "n0")[0].progress == pytest.approx(0.6)
    assert reports(run(emulation))["job_1_m_0_0"].end_s == pytest.approx(17.0)


def test_failures_and_kills_are_reported_with_their_reasons() -> None:
    emulation = cluster()
    emulation.launch(
        0.0, "n0", map_plan(0, duration_s=10.0, fails_after=0.5, failure="bad record", cpu_s=4.0)
    )
    emulation.launch(0.0, "n0", map_plan(1, duration_s=10.0, memory_peak_bytes=400 * MB))  # of 100 MB
    emulation.launch(0.0, "n1", map_plan(2, [("gone", 5)], duration_s=10.0))
    emulation.launch(0.0, "n1", map_plan(3, duration_s=10.0))
    emulation.advance(1.0)
    emulation.kill(1.0, "n1", "job_1_m_3_0", "not wanted")
    emulation.kill(1.0, "n1", "job_1_m_3_0", "not wanted")
    assert emulation.next_s() == 1.0
    seen = run(emulation)
    told = [(at_s, said.attempt[6:9], said.state, said.reason) for at_s, (_, said) in seen]  # pyright: ignore
    assert told == [
        (1.0, "m_3", "killed", "not wanted"),
        (2.5, "m_1", "failed", "over its memory limit of 95 MiB"),
        (3.3, "m_2", "failed", "OSError: no replica of gone could be read (it has none)"),
        (5.0, "m_0", "failed", "bad record"),
    ]
    assert reports(seen)["job_1_m_0_0"].counters.cpu_s == pytest.approx(1.0)  # half of 4 s at half speed


def test_a_lost_output_is_told_of_and_its_successor_is_read() -> None:
    """The first fetch fails at 6 s and the next 0.25 s later; failures from then on are reported.

    The reports come at 6.25, 6.75, 7.75 and 9.75 s.
    """
    emulation = cluster()
    emulation.launch(0.0, "n0", map_plan(0, duration_s=5.0))
    emulation.launch(0.0, "n1", reduce_plan(duration_s=3.0))
    run(emulation, 5.0)
    emulation.node_down(5.5, "n0")
    emulation.map_outputs(6.0, "n1", outputs((0, "n0")))
    lost = failures(run(emulation, 10.0))
    assert [at_s for at_s, _ in lost] == [6.25, 6.75, 7.75, 9.75]
    assert lost[0][1].map_attempt == "job_1_m_0_0"
    emulation.map_outputs(10.0, "n1", outputs((0, "n0"), lost=True, done=False))
    emulation.launch(10.0, "n2", map_plan(0, number=1, duration_s=5.0))
    run(emulation, 15.0)
    emulation.map_outputs(15.0, "n1", outputs((0, "n2"), number=1))
    assert reports(run(emulation))["job_1_r_0_0"].end_s == 18.0
    assert emulation.pop_consumed("job_1_r_0_0") == {0: "job_1_m_0_1"}


def test_a_reduce_gives_up_after_thirty_retries() -> None:
    emulation = cluster()
    emulation.launch(0.0, "n0", map_plan(0, duration_s=1.0))
    emulation.launch(0.0, "n1", reduce_plan(duration_s=3.0))
    run(emulation)
    emulation.partition(2.0, [["n0"], ["n1", "n2"]])
    emulation.map_outputs(2.0, "n1", outputs((0, "n0")))
    done = reports(run(emulation))["job_1_r_0_0"]
    assert (done.state, done.reason) == (
        "failed",
        "OSError: gave up after 31 tries to fetch job_1_m_0_0 from n0",
    )


def test_a_node_that_goes_takes_its_attempts_along() -> None:
    emulation = cluster()
    emulation.launch(0.0, "n0", map_plan(0, duration_s=5.0))
    emulation.node_down(1.0, "n0")
    assert run(emulation) == []
    assert emulation.next_s() == math.inf
    assert not emulation.statuses(1.0, "n0")


def test_output_is_allocated_by_blocks_and_fails_without_room() -> None:
    store = Blocks()
    emulation = cluster(store)
    plan = map_plan(0, output="/out/p0", block_bytes=40 * MB, output_bytes=100 * MB, duration_s=1.0)
    emulation.launch(0.0, "n0", plan)
    run(emulation)
    assert store.files == {"/out/p0": [40 * MB, 40 * MB, 20 * MB]}
    store.full = True
    emulation.launch(2.0, "n1", plan)
    assert reports(run(emulation))[plan.attempt].reason == "OSError: no node could take a block of /out/p0"
