"""Simulation of jobs that are submitted when enough slots are free (section 7.2)."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from statistics import fmean
from typing import Any

from schedbed.cluster.virtual.latencies import Latencies
from schedbed.deploy.papers.verma2011.w1_and_w2 import (
    BOUND,
    MAP_SLOTS,
    NODES,
    REDUCE_SLOTS,
    DueJob,
    load,
)
from schedbed.deploy.scenario.resolve import resolve
from schedbed.deploy.scenario.resolved import ResolvedScenario, SimulateChoice
from schedbed.deploy.simulated.simulated_runs import setup_of
from schedbed.deploy.simulated.task_costs import costs_of
from schedbed.scheduler.core.rows import AttemptRow, DecisionRow, JobRow
from schedbed.scheduler.simulate.setup import Setup
from schedbed.scheduler.simulate.simulation import Simulation
from schedbed.tasks.specs import Cost
from schedbed.tasks.workloads.planned import PlannedJob

USER = "verma"
SLOTS = MAP_SLOTS + REDUCE_SLOTS
TESTBED: dict[str, Any] = {
    "nodes": NODES,
    "racks": 2,
    "heartbeat": "3s",
    "node": {"cores": 8, "core_speed": 1.0, "memory": "8GiB", "map_slots": 4, "reduce_slots": 4},
}
"""A core for each slot: Table 2's durations are what tasks took with four cores and eight slots."""

SLOTS_ALONE: dict[str, Any] = {
    "nodes": 4,
    "heartbeat": "3s",
    "node": {
        "cores": SLOTS // 4,
        "core_speed": 1.0,
        "memory": "128GiB",
        "map_slots": MAP_SLOTS // 4,
        "reduce_slots": REDUCE_SLOTS // 4,
    },
}
"""The slots of the testbed on few nodes: the paper's simulator has slots and no nodes (7.2). A slot that is free is
offered at once by the node's next report instead of one node's of 64, and a run takes half the time."""

ALL_MAPS = "all_maps"
"""When reduces start in the paper's simulator: once the maps of their job are done (7.2)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of a simulation: the times of its jobs, and the mean share of busy slots (`load`).

    `jobs` has the submission, the end and the deadline of each job in s since the start. `attempts` is a
    dictionary from task kind to the times in s at which each attempt took and released its slot.
    """

    jobs: tuple[tuple[float, float, float], ...]
    load: float
    attempts: Mapping[str, list[tuple[float, float]]]  # by kind, start and end of each attempt's slot

    @property
    def late(self) -> int:
        """Return the number of jobs that ended after their deadlines."""
        return sum(finish > deadline for _, finish, deadline in self.jobs)

    @property
    def exceeded(self) -> float:
        """Return the sum of (T - D) / D over all late jobs, which the paper calls utility.

        T is the completion time of a job and D its deadline, both in s after the job's submission.
        """
        return sum((f - d) / (d - s) for s, f, d in self.jobs if f > d)

    @property
    def reserve(self) -> float:
        """Return by what share of its time until the deadline a job ended before the deadline, on average."""
        return fmean((d - f) / (d - s) for s, f, d in self.jobs)


def scenario(
    jobs: Sequence[DueJob], seed: int, reduce_start: str = ALL_MAPS, bound: str = BOUND
) -> ResolvedScenario:
    """Return a scenario of the given jobs under the policy ARIA on the testbed's slots.

    ARIA knows the jobs' profiles. The durations of tasks are given in the jobs. Submit times are set later by
    `simulate_jobs`. `reduce_start` says when reduces start (`all_maps` or `first_map`), and `bound` is the
    bound of the completion time from which ARIA computes slots.
    """
    return with_durations(under_aria(jobs, seed, SLOTS_ALONE, 1.0, reduce_start, bound), jobs)


def with_durations(bare: ResolvedScenario, jobs: Sequence[DueJob]) -> ResolvedScenario:
    """Return a copy of the scenario `bare` with the given jobs, all submitted at time 0.

    `bare` is a scenario made by `under_aria` and has one job as a model. The given jobs replace the model,
    and their tasks take the given durations.
    """
    (model,) = bare.jobs
    planned = [
        replace(
            planned_job(model, number, job, 0.0),
            map_costs=tuple(Cost(duration_s=each) for each in job.maps_s),
            reduce_costs=tuple(Cost(duration_s=each) for each in job.reduces_s),
        )
        for number, job in enumerate(jobs, 1)
    ]
    return replace(bare, jobs=tuple(planned), simulate=SimulateChoice(costs="trace", contention=False))


def under_aria(
    jobs: Sequence[DueJob],
    seed: int,
    cluster: Mapping[str, Any],
    scale: float,
    reduce_start: str = "first_map",
    bound: str = BOUND,
) -> ResolvedScenario:
    """Return a scenario under the policy ARIA, which knows the profiles of the given jobs.

    The scenario has a single job that serves as a model: `planned_job` makes the given jobs from it.
    `cluster` and `scale` are keys of the scenario. `reduce_start` says when reduces start, and `bound` is the
    bound of the completion time from which ARIA computes slots.
    """
    profiles = {f"{USER}/{job.name}": job.profile.to_json() for job in jobs}
    aria = {"spare": "none", "bound": bound, "reduce_start": reduce_start, "profiles": profiles}
    return resolve(
        {
            "name": "verma2011-slo",
            "seed": seed,
            "scale": scale,
            "cluster": cluster,
            "workload": {"jobs": [{"app": "synthetic", "user": USER}]},
            "policies": [{"aria": aria}],
            "profiles": {"store": "none"},
        }
    )


def planned_job(model: PlannedJob, number: int, job: DueJob, submit_s: float) -> PlannedJob:
    """Return a copy of the planned job `model` with the name, numbers of tasks and deadline of `job`.

    The copy's id contains `number`, as in `job_0001`, and the copy is submitted at `submit_s` seconds.
    """
    return replace(
        model,
        job=f"job_{number:04d}",
        name=job.name,
        maps=len(job.maps_s),
        reduces=len(job.reduces_s),
        submit_s=submit_s,
        deadline_s=submit_s + job.deadline_s,
    )


def simulate_jobs(
    jobs: Sequence[DueJob], threshold: float, seed: int, reduce_start: str = ALL_MAPS, bound: str = BOUND
) -> Outcome:
    """Simulate the jobs in order; each is submitted as soon as the load is low enough.

    A job's load is the sum of the shares of map and reduce slots that it needs. A job waits while its load
    and the load of running jobs together exceed `threshold`. `reduce_start` says when reduces start
    (`all_maps` or `first_map`), and `bound` is the bound of the completion time from which the policy ARIA
    computes slots. No tables are written, which saves time.
    """
    resolved = scenario(jobs, seed, reduce_start, bound)
    setup = setup_of(resolved, resolved.policies[0], 0, costs_of(resolved), Latencies())
    rows = RowsKept()
    _ByLoad(replace(setup, heartbeat_rows=False, skip_rows=False), rows, jobs, threshold).run()
    began_s, ended_s = min(job[0] for job in rows.jobs), max(job[1] for job in rows.jobs)
    busy_s = sum(end - began for each in rows.attempts.values() for began, end in each)
    load = busy_s / (SLOTS * (ended_s - began_s))
    return Outcome(jobs=tuple(rows.jobs), load=load, attempts=rows.attempts)


class _ByLoad(Simulation):
    """A simulation that submits the next job when enough slots for its deadline are free.

    The condition is checked once per heartbeat interval.
    """

    def __init__(self, setup: Setup, rows: RowsKept, jobs: Sequence[DueJob], threshold: float) -> None:
        self._due_jobs, self._threshold = deque(jobs), threshold
        super().__init__(setup, rows)

    def submit_due(self, now_s: float) -> None:
        """Submit waiting jobs as long as the load stays below the threshold.

        The base class submits jobs by their submit times instead.
        """
        running = self.master.ledger.jobs.values()
        now = load(sum(job.maps.running for job in running), sum(job.reduces.running for job in running))
        waiting = self.master.waiting
        while waiting and now + self._due_jobs[0].load <= self._threshold * (1 + 1e-9):
            wanted = self._due_jobs.popleft()
            now += wanted.load
            due_s = now_s + wanted.deadline_s
            self.master.do(now_s, "submit", replace(waiting[0], submit_s=now_s, deadline_s=due_s))
        self.due_s = now_s + self.interval_s if waiting else inf


class RowsKept:
    """A receiver of a simulation's table rows that keeps only the times of jobs and attempts.

    `simulate_jobs` makes an `Outcome` of these times.
    """

    def __init__(self) -> None:
        self.jobs: list[tuple[float, float, float]] = []
        self.attempts: dict[str, list[tuple[float, float]]] = {"map": [], "reduce": []}

    def job(self, row: JobRow) -> None:
        """Implement `Sink.job`: keep the job's times. Raises ValueError if the job did not succeed."""
        if row.state != "succeeded" or row.finish is None or row.deadline is None:
            raise ValueError(f"{row.job} {row.state}")
        self.jobs.append((row.submit, row.finish, row.deadline))

    def attempt(self, row: AttemptRow) -> None:
        """Implement `Sink.attempt`: keep the times at which the attempt took and released its slot."""
        self.attempts[row.kind].append((row.assigned, row.end))

    def decision(self, row: DecisionRow) -> None:
        """Implement `Sink.decision`: ignore the row."""

    def heartbeat(self, row: tuple[object, ...]) -> None:
        """Implement `Rows.heartbeat`: ignore the row."""

    def block(self, row: tuple[object, ...]) -> None:
        """Implement `Rows.block`: ignore the row."""

    def fault(self, row: tuple[object, ...]) -> None:
        """Implement `Rows.fault`: ignore the row."""
