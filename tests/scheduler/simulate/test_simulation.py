"""The simulation loop: timelines by hand, skipped heartbeats, faults, and identical rows of repeated runs."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from schedbed.cluster.faults import PlannedFault
from schedbed.cluster.virtual.latencies import NO_LATENCIES
from schedbed.scheduler.registry.registry import POLICIES, build_policy
from schedbed.scheduler.simulate.setup import Setup, Stragglers, Stuck, Timing
from schedbed.scheduler.simulate.simulation import Simulation
from schedbed.scheduler.simulate.skipping import is_quiet
from schedbed.tasks.errors import BadInput
from schedbed.tasks.specs import TaskKind
from tests.harness.simulation import (
    NO_TIMING,
    Tape,
    job,
    random_faults,
    random_jobs,
    setup,
    simulate,
)

ROOT = Path(__file__).parents[3]
DECIDED = ("decision", "attempt", "job", "block")
COMPOSED = (
    "delay:node_wait=2s,rack_wait=1s,clock=wall",
    "delay:node_wait=1s,rack_wait=2s,clock=wall,reset=launch",
    "order=fifo,locality=delay",
    "order=fair,locality=delay,admission=containers",
    "fair:fair_share_timeout=2s",
)


def ends(rows: list[tuple[Any, ...]]) -> dict[str, tuple[float, float, float, str]]:
    """Return a dictionary from attempt to its assignment, start and end times and its state."""
    return {row[2]: (row[9], row[10], row[11], row[12]) for row in rows}


def test_a_tiny_job_by_hand() -> None:
    """A node with two map slots and without latencies: its first heartbeat at 0 s launches two maps of 10
    s.

    At 10 s one heartbeat reports both ends. It launches the third map (4 s) and the reduce. The third map
    ends at 14 s, and the reply to its report tells the reduce, which takes 5 s more and ends at 19 s.
    """
    tape = simulate(setup([job("job_0001", [10.0, 10.0, 4.0], reduces=[5.0])], 1))
    assert ends(tape.rows["attempt"]) == {
        "job_0001_m_000000_0": (0.0, 0.0, 10.0, "succeeded"),
        "job_0001_m_000001_0": (0.0, 0.0, 10.0, "succeeded"),
        "job_0001_m_000002_0": (10.0, 10.0, 14.0, "succeeded"),
        "job_0001_r_000000_0": (10.0, 10.0, 19.0, "succeeded"),
    }
    assert [row[7] for row in tape.rows["job"]] == [19.0]


def test_launches_differ_by_seed_and_repeat_only() -> None:
    """Ten maps are launched at 0 s.

    Each starts after 0.5 s plus one of three random delays, which depend only on the seed and the number of
    the repeat.
    """
    latencies = replace(NO_LATENCIES, launch_s=0.5, launch_later_s=(0.0, 0.1, 0.25))
    planned = setup([job("job_0001", [1.0] * 10)], 5, latencies=latencies)
    starts = [
        [row[10] for row in simulate(each).rows["attempt"]]
        for each in (planned, planned, replace(planned, repeat=1), replace(planned, seed=1))
    ]
    assert {round(start, 9) for start in starts[0]} == {0.5, 0.6, 0.75}
    assert starts[0] == starts[1]
    assert starts[0] != starts[2]
    assert starts[0] != starts[3]


def test_cpu_times_differ_by_the_factors_of_a_recorded_run() -> None:
    """Ten maps of 10 s.

    Repeats 0 and 2 use the CPU factors of the first recorded run, repeat 1 those of the second.
    """
    factors = {("job_0001", TaskKind.MAP): [(0.9, 1.1), (2.0,)]}
    planned = setup([job("job_0001", [10.0] * 10)], 10, cpu_factors=factors)
    took = []
    for number in (0, 0, 1, 2):
        rows = simulate(replace(planned, repeat=number)).rows["attempt"]
        took.append([round(row[11] - row[10], 6) for row in sorted(rows, key=lambda row: row[2])])
    assert set(took[0]) == set(took[3]) == {9.0, 11.0}
    assert took[0] == took[1] != took[3]
    assert took[2] == [20.0] * 10


def test_messages_take_their_time() -> None:
    """A heartbeat sent at 0 s is processed at 0.01 s.

    Its launch arrives at 0.01 + 0.002 + 0.005 = 0.017 s, so the map of 1 s ends at 1.017 s. The report of its
    end is processed at 1.027 s, and its output is committed at 1.047 s.
    """
    timing = Timing(request_s=0.01, decision_s=0.002, reply_s=0.005, commit_s=0.02)
    tape = simulate(setup([job("job_0001", [1.0])], 1, timing=timing))
    assigned, start, end, _ = ends(tape.rows["attempt"])["job_0001_m_000000_0"]
    assert (assigned, start, end) == pytest.approx((0.01, 0.017, 1.017))
    assert tape.rows["job"][0][7] == pytest.approx(1.047)


def test_a_job_comes_in_with_the_first_heartbeat_or_tick_after_its_time() -> None:
    tape = simulate(setup([job("job_0001", [1.0], submit_s=3.2)], 1))
    assigned = ends(tape.rows["attempt"])["job_0001_m_000000_0"][0]
    times = [row[0] for row in simulate(replace_heartbeats(3.2)).rows["heartbeat"]]
    assert assigned == min(time for time in times if time >= 3.2)


def replace_heartbeats(submit_s: float) -> Any:
    """Return the setup of a job on one node in which no heartbeat is skipped."""
    return setup([job("job_0001", [1.0], submit_s=submit_s)], 1, process_all_heartbeats=True)


@pytest.mark.parametrize("policy", (*POLICIES, *COMPOSED))
@pytest.mark.parametrize("seed", range(3))
def test_heartbeats_that_are_skipped_change_nothing(policy: str, seed: int) -> None:
    jobs, files = random_jobs(seed)
    timing = Timing() if seed % 2 else NO_TIMING
    given = setup(jobs, 4, policy=policy, files=files, seed=seed, timing=timing)
    spared, complete = simulate(given), simulate(replace(given, process_all_heartbeats=True))
    assert spared.text(*DECIDED) == complete.text(*DECIDED)
    if is_quiet(build_policy(policy)):
        assert len(spared.rows["heartbeat"]) < len(complete.rows["heartbeat"])
    assert len(spared.rows["job"]) == len(jobs)


@pytest.mark.parametrize("policy", ("fair", "order=fair,locality=delay", "fgcs"))
@pytest.mark.parametrize("contention", (False, True))
def test_heartbeats_that_report_no_end_and_start_no_task_have_no_row(policy: str, contention: bool) -> None:
    """The rows that remain add up to the same use of CPU and disk."""
    jobs, files = random_jobs(2)
    given = setup(jobs, 4, policy=policy, files=files, seed=2, timing=Timing(), contention=contention)
    few, every = simulate(given), simulate(replace(given, process_all_heartbeats=True))
    news = {(row[9], row[5]) for row in few.rows["attempt"]}
    for at_s, node, *_ in few.rows["heartbeat"][4:-4]:  # The others are of the start and the end of the run.
        ends_s = [row[11] for row in few.rows["attempt"] if row[5] == node and row[11] <= at_s]
        assert (at_s, node) in news or at_s - max(ends_s) < 0.5
    assert news <= {(at_s, node) for at_s, node, *_ in few.rows["heartbeat"]}
    for column in (4, 5):  # `every` lacks the time after a node's last heartbeat.
        assert used(few, column) == pytest.approx(used(every, column), rel=1e-3)


def used(tape: Tape, column: int) -> dict[str, float]:
    """Return the use that a column of the heartbeats table reports for each node, times its duration in s."""
    total: dict[str, float] = {}
    last_s: dict[str, float] = {}
    for at_s, node, *more in tape.rows["heartbeat"]:
        total[node] = total.get(node, 0.0) + more[column - 2] * (at_s - last_s.get(node, 0.0))
        last_s[node] = at_s
    return total


def with_heartbeats(given: Setup) -> tuple[Tape, list[float]]:
    """Simulate to the end and return the rows, and the times in s of all heartbeats that were simulated."""
    times: list[float] = []

    def note(simulation: Simulation) -> None:
        times.extend([simulation.now_s] * (simulation.statistics.heartbeats - len(times)))

    return simulate(given, note), times


@pytest.mark.parametrize("policy", ("easy", "order=fifo,admission=gang"))
def test_nodes_rest_while_no_job_that_waits_fits(policy: str) -> None:
    """Job 2 waits for all slots, all but one of which job 1 uses until 60 s.

    No node has a heartbeat meanwhile.
    """
    slots = sum(node.map_slots for node in setup([], 4).cluster.nodes)
    jobs = [job("job_0001", [60.0] * (slots - 1)), job("job_0002", [1.0] * slots, submit_s=1.0)]
    given = replace(setup(jobs, 4), policy=lambda: build_policy(policy))
    tape, heartbeats = with_heartbeats(given)
    second = [row for row in tape.rows["decision"] if row[2] == "job_0002"]
    assert [row[5] for row in second] == ["skip", *["launch"] * slots]
    assert second[1][0] >= 60.0
    assert heartbeats and not [at_s for at_s in heartbeats if 10.0 < at_s < 59.0]


def test_nodes_rest_that_ras_would_refuse() -> None:
    """Under RAS a new job is placed only in the next cycle.

    Heartbeats are skipped until then, because RAS would refuse them all.
    """
    given = setup([job("job_0001", [1.0]), job("job_0002", [1.0] * 4, submit_s=1.0)], 4, policy="ras")
    tape, heartbeats = with_heartbeats(given)
    first_s = min(row[9] for row in tape.rows["attempt"] if row[0] == "job_0002")
    assert first_s > 9.0
    assert heartbeats and len([at_s for at_s in heartbeats if 3.0 < at_s < first_s]) < 8


def test_without_rows_of_skips_all_others_stay() -> None:
    jobs, files = random_jobs(1)
    given = setup(jobs, 4, policy="order=fair,locality=delay", files=files, seed=1)
    whole, less = simulate(given), simulate(replace(given, skip_rows=False))
    skips = [row for row in whole.rows["decision"] if row[5] == "skip"]
    assert skips
    assert less.rows["decision"] == [row for row in whole.rows["decision"] if row[5] != "skip"]
    assert less.text("attempt", "job") == whole.text("attempt", "job")


GANGS = (
    "order=fifo,admission=gang",
    "order=fair,locality=delay,admission=gang",
    "order=capacity,admission=gang",
)
NODE_FAULTS = ("kill", "freeze", "slow", "partition")


SLURM = "easy:reserve=nodes,interval=3s,reservations=all"


@pytest.mark.parametrize(
    "policy",
    (
        "fifo",
        "delay",
        "easy",
        SLURM,
        "fgcs",
        "fgcs:learn=1,shortest=0s",
        "ras",
        "ras:cycle=3s,steps=3",
        *GANGS,
    ),
)
@pytest.mark.parametrize("seed", range(4))
def test_nor_do_they_when_nodes_fail(policy: str, seed: int) -> None:
    jobs, files = random_jobs(seed)
    faults = random_faults(seed, 4, NODE_FAULTS)
    given = setup(jobs, 4, policy=policy, files=files, seed=seed, timing=Timing(), faults=faults)
    spared, complete = simulate(given), simulate(replace(given, process_all_heartbeats=True))
    assert spared.text(*DECIDED, "fault") == complete.text(*DECIDED, "fault")
    assert [row[13] for row in spared.rows["job"]] == ["succeeded"] * len(jobs)


@pytest.mark.parametrize("kind", ("lose_requests", "lose_replies", "crash_jobtracker", "restart_namenode"))
def test_jobs_outlive_faults_of_the_masters(kind: str) -> None:
    jobs, files = random_jobs(3)
    faults = [PlannedFault(at_s=5.0, kind=kind, until_s=9.0, share=0.3)]
    given = setup(jobs, 4, policy="delay", files=files, timing=Timing(), faults=faults)
    tape = simulate(given, lambda simulation: simulation.core.check_tables())
    assert sorted((row[0], row[13]) for row in tape.rows["job"]) == [(job.job, "succeeded") for job in jobs]
    winners = [row[1] for row in tape.rows["attempt"] if row[12] == "succeeded"]
    assert sorted(winners) == sorted(set(winners))


@pytest.mark.parametrize("at_s", (0.0, 3.3, 11.0, 17.77, 30.0))
def test_a_replayed_journal_goes_on_as_if_nothing_had_been(at_s: float) -> None:
    """The JobTracker crashes at `at_s` and restarts a nanosecond later from its journal. No row changes."""
    jobs, files = random_jobs(5)
    given = setup(jobs, 4, policy="delay", files=files, timing=Timing(), process_all_heartbeats=True)
    crash = PlannedFault(at_s=at_s, kind="crash_jobtracker", until_s=at_s + 1e-9)
    assert simulate(replace(given, faults=[crash])).text(*DECIDED) == simulate(given).text(*DECIDED)


def test_no_tracker_is_called_silent_for_the_time_in_which_the_jobtracker_was_down() -> None:
    jobs, files = random_jobs(3)
    faults = [PlannedFault(at_s=at_s, kind="crash_jobtracker", until_s=at_s + 30.0) for at_s in (20.0, 60.0)]
    tape = simulate(setup(jobs, 4, policy="delay", files=files, timing=Timing(), faults=faults))
    assert [row[12] for row in tape.rows["attempt"] if row[12] != "succeeded"] == []
    assert sum(row[9] < 20.0 and row[11] > 25.0 for row in tape.rows["attempt"]) > 1


@pytest.mark.parametrize("contention", (False, True))
def test_stragglers_are_the_same_for_the_same_seed(contention: bool) -> None:
    jobs, files = random_jobs(6)
    given = setup(jobs, 4, files=files, seed=6, contention=contention)
    slowed = replace(given, stragglers=Stragglers(share=0.3, factor=4.0))
    assert simulate(slowed).text() == simulate(slowed).text()
    assert simulate(slowed).rows["job"] != simulate(given).rows["job"]


def test_a_run_whose_nodes_never_come_back_is_given_up() -> None:
    faults = [PlannedFault(at_s=1.0, kind="kill", nodes=("n1", "n2"))]
    with pytest.raises(Stuck, match="no node is alive"):
        simulate(setup([job("job_0001", [10.0])], 2, faults=faults))


def test_unknown_nodes_and_faults_are_refused() -> None:
    with pytest.raises(BadInput, match="no node 'n9'"):
        simulate(setup([], 1, faults=[PlannedFault(at_s=1.0, kind="kill", nodes=("n9",))]))
    with pytest.raises(BadInput, match="expected kill"):
        simulate(setup([], 1, faults=[PlannedFault(at_s=1.0, kind="flood")]))


SCRIPT = """
import sys
from schedbed.cluster.virtual.latencies import Latencies
from schedbed.scheduler.simulate.setup import Timing
from tests.harness.simulation import *
jobs, files = random_jobs(9)
faults = random_faults(9, 5, ("kill", "slow", "partition", "freeze"))
for contention in (False, True):
    sys.stdout.write(simulate(setup(
        jobs, 5, policy="delay", files=files, seed=9, timing=Timing(), latencies=Latencies(), faults=faults,
        contention=contention,
    )).text())
"""


def test_every_process_gives_the_same_bytes() -> None:
    outputs = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1
    assert outputs.pop().count(b"succeeded") > 20


@pytest.mark.parametrize(
    "policy", (SLURM, "slurm-fcfs:limit_check=2s", "slurm-backfill:interval=2s,limit_check=3s")
)
@pytest.mark.parametrize("seed", range(4))
def test_nor_do_they_when_jobs_start_in_cycles_and_end_by_their_limits(policy: str, seed: int) -> None:
    jobs, files = random_jobs(seed)
    jobs = [replace(each, requested_s=2.0 + 7 * i % 20) for i, each in enumerate(jobs)]
    given = setup(jobs, 4, policy=policy, files=files, seed=seed, timing=Timing())
    spared, complete = simulate(given), simulate(replace(given, process_all_heartbeats=True))
    assert spared.text(*DECIDED) == complete.text(*DECIDED)
    states = {row[13] for row in spared.rows["job"]}
    assert "succeeded" in states and states <= {"succeeded", "timeout"}
