"""Simulations that record only the times of jobs. They take half the time of a run with tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from schedbed.cluster.virtual.latencies import Latencies
from schedbed.deploy.scenario.resolved import PolicyChoice, ResolvedScenario
from schedbed.deploy.simulated.job_ends import JobEnds
from schedbed.deploy.simulated.simulated_runs import setup_of
from schedbed.deploy.simulated.task_costs import costs_of
from schedbed.scheduler.simulate.simulation import Simulation


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTime:
    """The submission, the end and the deadline (or None) of a job, in seconds since the run's start."""

    name: str
    submit_s: float
    finish_s: float
    deadline_s: float | None

    @property
    def took_s(self) -> float:
        """Return the seconds from the job's submission to its end."""
        return self.finish_s - self.submit_s


def job_times(resolved: ResolvedScenario, policy: PolicyChoice) -> list[JobTime]:
    """Simulate a scenario under one of its policies once, and return the times of its jobs."""
    ends = JobEnds()
    setup = setup_of(resolved, policy, 0, costs_of(resolved), Latencies())
    Simulation(replace(setup, heartbeat_rows=False, skip_rows=False), ends).run()
    return [
        JobTime(
            name=job.name,
            submit_s=job.submit_s,
            finish_s=ends.finish_s[job.job],
            deadline_s=job.deadline_s,
        )
        for job in resolved.jobs
    ]


def makespan_s(jobs: Sequence[JobTime]) -> float:
    """Return the time in s from the first submission to the last end of these jobs."""
    return max(job.finish_s for job in jobs) - min(job.submit_s for job in jobs)
