"""The simulated duration of each job when it runs alone on the cluster, from which slowdowns are computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from schedbed.cluster.virtual.latencies import Latencies
from schedbed.deploy.results.shared_work import share
from schedbed.deploy.scenario.resolved import PolicyChoice, ResolvedScenario
from schedbed.deploy.simulated.simulated_runs import setup_of
from schedbed.deploy.simulated.task_costs import costs_of
from schedbed.scheduler.core.rows import JobRow, NoSink
from schedbed.scheduler.simulate.setup import Stuck
from schedbed.scheduler.simulate.simulation import Simulation
from schedbed.tasks.appkit.app_catalogue import app_of
from schedbed.tasks.workloads.planned import PlannedJob

TASKS_MAX = 20_000
"""The most tasks of all different jobs. With more, no job is simulated: a mean over some would be misleading."""
MANY_TASKS = 1_000
"""The least number of tasks for which processes are forked."""
ALONE = PolicyChoice(spec="fifo", given="fifo")


def isolated_times(scenario: ResolvedScenario, at_once: int = 1) -> dict[str, float]:
    """Return the duration in s of each job, from submission to end, when it runs alone under FIFO.

    At most `at_once` jobs are simulated at a time, in forked processes, without faults. Jobs whose costs
    would have to be measured first are left out, and equal jobs simulated once. If that is more than
    TASKS_MAX tasks, the result is empty.
    """
    shapes: dict[tuple[Any, ...], list[PlannedJob]] = {}
    tasks = 0
    for job in scenario.jobs:
        if job.app == "synthetic" or (app_of(job).costs is not None and scenario.simulate.costs != "profile"):
            same = shapes.setdefault(_shape(job), [])
            tasks += 0 if same else job.maps + job.reduces
            same.append(job)
            if tasks > TASKS_MAX:
                return {}
    firsts = [jobs[0] for jobs in shapes.values()]
    shares = min(at_once, len(firsts)) if tasks >= MANY_TASKS else 1
    works = [partial(_each_alone_s, scenario, firsts[number::shares]) for number in range(shares)]
    parts = share(works, at_once)
    times = {job: seconds for part in parts for job, seconds in part.items()}
    return {job.job: times[jobs[0].job] for jobs in shapes.values() if jobs[0].job in times for job in jobs}


def _shape(job: PlannedJob) -> tuple[Any, ...]:
    """Return everything on which the job's duration alone depends."""
    plain = (job.app, job.priority, job.input, job.maps, job.reduces, repr(dict(job.params)))
    return (*plain, job.map_demand, job.reduce_demand, job.map_costs, job.reduce_costs)


def _each_alone_s(scenario: ResolvedScenario, jobs: Sequence[PlannedJob]) -> dict[str, float]:
    """Return each job's seconds alone, without jobs that cannot end."""
    times = {job.job: _alone_s(scenario, job) for job in jobs}
    return {job: seconds for job, seconds in times.items() if seconds is not None}


def _alone_s(scenario: ResolvedScenario, job: PlannedJob) -> float | None:
    alone = replace(
        scenario,
        jobs=(replace(job, submit_s=0.0, deadline_s=None, after=None),),
        inputs=tuple(file for file in scenario.inputs if file.path in job.reads),
        faults=(),
        speculation="none",
    )
    ends = JobEnds()
    try:
        Simulation(setup_of(alone, ALONE, 0, costs_of(alone), Latencies()), ends).run()
    except Stuck:
        return None
    return ends.finish_s.get(job.job)


# A receiver of a simulation's rows that keeps only the end times of jobs and ignores all other rows.


class JobEnds(NoSink):
    """Keeps only the submit and end times, by job, of each successful job."""

    def __init__(self) -> None:
        self.submit_s: dict[str, float] = {}
        self.finish_s: dict[str, float] = {}

    def job(self, row: JobRow) -> None:
        if row.state == "succeeded":
            self.submit_s[row.job], self.finish_s[row.job] = row.submit, row.finish

    def heartbeat(self, row: tuple[object, ...]) -> None:
        """Implement `Rows.heartbeat`: ignore the row."""

    def block(self, row: tuple[object, ...]) -> None:
        """Implement `Rows.block`: ignore the row."""

    def fault(self, row: tuple[object, ...]) -> None:
        """Implement `Rows.fault`: ignore the row."""
