"""Kinds of faults in the simulator: their effects on attempts, heartbeats and replicas, and their ends."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from schedbed.cluster.faults import RESTART_S, PlannedFault
from schedbed.cluster.virtual.latencies import Latencies
from schedbed.scheduler.simulate.compiled import covers
from schedbed.scheduler.simulate.setup import Timing
from schedbed.scheduler.simulate.simulation import Simulation
from tests.harness.simulation import Tape, job, random_jobs, setup, simulate


def simple(*faults: PlannedFault, contention: bool = True, maps: int = 9, **changes: Any) -> Tape:
    """Simulate a job of 10 s maps and two reduces of 5 s on three nodes with these faults, and return the
    rows.
    """
    jobs = [job("job_0001", [10.0] * maps, reduces=[5.0] * 2)]
    return simulate(replace(setup(jobs, 3, faults=faults, contention=contention), **changes))


def attempts(tape: Tape, *states: str) -> list[Any]:
    rows: list[Any] = tape.rows["attempt"]
    return [row for row in rows if row.state in states]


def finish_s(tape: Tape) -> float:
    rows: list[Any] = tape.rows["job"]
    assert all(row.state == "succeeded" for row in rows)
    return max(row.finish for row in rows)


@pytest.mark.parametrize("contention", [True, False])
def test_a_struck_attempt_fails_once_and_its_task_runs_again(contention: bool) -> None:
    tape = simple(
        PlannedFault(at_s=5.0, kind="kill_attempt", target="job_0001_m_000001"), contention=contention
    )
    (failed,) = attempts(tape, "failed")
    assert (failed.attempt, failed.end) == ("job_0001_m_000001_0", 5.0)
    assert failed.reason == "killed by signal 9 (SIGKILL)"
    assert ("kill_attempt", failed.attempt) in [row[1:3] for row in tape.rows["fault"]]
    finish_s(tape)


def test_any_attempt_on_a_node_is_struck_there_and_none_where_none_runs() -> None:
    tape = simple(
        PlannedFault(at_s=5.0, kind="kill_attempt", nodes=("n1",), luck=0.9),
        PlannedFault(at_s=0.0, kind="kill_attempt", nodes=("n2",)),
    )
    (failed,) = attempts(tape, "failed")
    assert failed.node == "n1"
    assert [row[2] for row in tape.rows["fault"]] == ["n2", failed.attempt]


@pytest.mark.parametrize("contention", [True, False])
def test_a_foreground_load_has_the_cpu_ahead_of_tasks(contention: bool) -> None:
    """A node's foreground load uses the CPU before its tasks.

    Two maps of 10 s of CPU run on one slot. With a fifth of the CPU until 30 s, the first has done 6 s and
    needs 4 s more. The second starts at 34 s, and from 40 s on it has half of the CPU, so its last 4 s take 8
    s.
    """
    load = ((0.0, 0.8), (30.0, 0.0), (40.0, 0.5))
    made = setup([job("job_0001", [10.0] * 2)], 1, contention=contention)
    (spec,) = made.cluster.nodes
    shared = replace(spec, foreground=load, map_slots=1, cores=1)
    tape = simulate(replace(made, cluster=replace(made.cluster, nodes=(shared,))))
    ends = [row.end for row in attempts(tape, "succeeded")]
    assert ends == pytest.approx([34.0, 48.0], abs=0.6)
    assert not tape.rows["fault"]


def test_the_compiled_loop_leaves_foreground_loads_to_the_other() -> None:
    made = setup([job("job_0001", [10.0])], 1)
    nodes = tuple(replace(spec, foreground=((5.0, 0.5),)) for spec in made.cluster.nodes)
    shared = Simulation(replace(made, cluster=replace(made.cluster, nodes=nodes)), Tape())
    assert covers.why_not(shared) == "nodes have a foreground load"
    assert covers.why_not(Simulation(made, Tape())) is None


@pytest.mark.parametrize("contention", [True, False])
def test_on_a_full_disk_what_writes_fails_and_what_computes_does_not(contention: bool) -> None:
    files = random_jobs(5)
    full = PlannedFault(at_s=0.0, kind="fill_disk", nodes=("n1",), until_s=30.0)
    tape = simulate(setup(files[0], 4, files=files[1], timing=Timing(), faults=[full], contention=contention))
    failed = attempts(tape, "failed")
    assert failed and {(row.node, row.reason) for row in failed} == {("n1", "disk full")}
    assert all(row.end <= 30.0 + 1e-9 or row.assigned <= 30.0 for row in failed)
    finish_s(tape)


def test_a_slow_node_is_slow_in_its_next_life_too() -> None:
    slow = PlannedFault(at_s=0.0, kind="slow", nodes=("n1",), cpu=0.1)
    kill = PlannedFault(at_s=1.0, kind="kill", nodes=("n1",), until_s=2.0)
    tape = simple(slow, kill)
    later = [row for row in attempts(tape, "succeeded") if row.node == "n1" and row.start > 2.0]
    assert later and all(row.end - row.start > 40 for row in later)


def test_a_killed_tasktracker_is_a_short_death_of_its_node() -> None:
    tape = simple(PlannedFault(at_s=5.0, kind="kill_tracker", nodes=("n1",)))
    lost = attempts(tape, "lost")
    assert lost and {row.node for row in lost} == {"n1"}
    back = [row for row in attempts(tape, "succeeded") if row.node == "n1"]
    assert all(row.assigned > 5.0 + RESTART_S for row in back if row.assigned > 5.0)
    finish_s(tape)


def test_a_killed_host_is_a_short_death_of_all_nodes_also_of_those_whose_tasktracker_is_back_before() -> None:
    host = PlannedFault(at_s=5.0, kind="kill_host", nodes=("n2",), until_s=9.0)
    tape = simple(host, PlannedFault(at_s=4.0, kind="kill_tracker", nodes=("n1",)))
    assert (5.0, "kill_host", "n1,n2,n3", 9.0) in tape.rows["fault"]
    assert {row.node for row in attempts(tape, "lost")} == {"n1", "n2", "n3"}
    assert all(row.assigned > 9.0 for row in attempts(tape, "succeeded") if row.assigned > 5.0)
    finish_s(tape)


def test_who_is_cut_off_from_the_masters_is_lost_and_comes_back() -> None:
    cut = PlannedFault(at_s=5.0, kind="cut_off", nodes=("n1",), until_s=20.0)
    tape = simple(cut, timing=Timing(), maps=30)
    assert {(row.node, row.reason) for row in attempts(tape, "lost")} == {("n1", "tracker silent")}
    assert any(row.node == "n1" and row.assigned > 20.0 for row in attempts(tape, "succeeded"))


def test_delayed_heartbeats_start_tasks_late_but_lose_none() -> None:
    late = PlannedFault(at_s=0.0, kind="delay", nodes=("n1", "n2", "n3"), by_s=0.4, until_s=300.0)
    calm, slow = simple(timing=Timing()), simple(late, timing=Timing())
    assert len(attempts(slow, "succeeded")) == len(attempts(calm, "succeeded")) == 11
    assert finish_s(calm) + 1.6 < finish_s(slow) < finish_s(calm) + 8.0


def test_transfers_from_a_node_with_delay_take_that_longer() -> None:
    jobs = [job("job_0001", [0.1] * 2, reduces=[0.1])]
    late = PlannedFault(at_s=0.0, kind="delay", nodes=("n1", "n2"), by_s=0.3, until_s=300.0)
    given = setup(jobs, 2, latencies=Latencies(), timing=Timing())
    assert finish_s(simulate(replace(given, faults=[late]))) > finish_s(simulate(given)) + 0.6


def test_a_nic_delays_and_loses_as_a_fault_would_but_is_none() -> None:
    given = setup([job("job_0001", [0.1] * 4, reduces=[0.1])], 2, latencies=Latencies(), timing=Timing())
    late, lossy = {"latency_s": 0.3}, {"latency_s": 0.3, "loss": 0.3}

    def with_nics(**nic: float) -> Tape:
        nodes = tuple(replace(node, **nic) for node in given.cluster.nodes)
        return simulate(replace(given, cluster=replace(given.cluster, nodes=nodes)))

    calm, slow, bad = finish_s(with_nics()), finish_s(with_nics(**late)), finish_s(with_nics(**lossy))
    assert calm + 0.6 < slow < bad
    always = [PlannedFault(at_s=0.0, kind="delay", nodes=("n1", "n2"), by_s=0.3)]
    assert finish_s(simulate(replace(given, faults=always))) == pytest.approx(slow, abs=0.5)
    assert with_nics(**lossy).text() == with_nics(**lossy).text()
    assert with_nics(**lossy).rows["fault"] == []


@pytest.mark.parametrize("kind", ["loss", "corrupt_replica", "delete_replica", "partition"])
def test_jobs_with_inputs_outlive_it_and_replicas_are_restored(kind: str) -> None:
    jobs, files = random_jobs(7)
    nodes = ("n1",) if kind in ("loss", "partition") else ()
    faults = [
        PlannedFault(
            at_s=at_s, kind=kind, nodes=nodes, until_s=at_s + 4.0 if nodes else None, share=0.3, luck=0.4
        )
        for at_s in (1.0, 8.0)
    ]
    tape = simulate(setup(jobs, 4, files=files, timing=Timing(), latencies=Latencies(), faults=faults))
    finish_s(tape)
    if kind.endswith("replica"):
        hit = [row[2].partition(" on ")[0] for row in tape.rows["fault"]]
        rows: list[Any] = tape.rows["block"]
        assert {row[0] for row in rows if row[-1] == "repair"} >= set(hit)


def test_two_crashes_of_the_jobtracker_that_overlap_are_one() -> None:
    crashes = [PlannedFault(at_s=at_s, kind="crash_jobtracker", until_s=at_s + 3.0) for at_s in (4.0, 6.0)]
    tape = simple(*crashes)
    assert not [row for row in tape.rows["decision"] if 4.0 < row[0] < 9.0]
    finish_s(tape)
