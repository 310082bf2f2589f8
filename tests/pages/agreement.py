"""The arithmetic of a comparison: jobs of a recorded run of a real system, and the same jobs simulated.

A run is {job: (submit time, finish time)} in seconds. A job's completion is the time between the two. Errors are
relative to the recorded value: 0.05 means that the simulated value is 5% too large.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isnan
from statistics import mean
from typing import Any, NamedTuple

Run = Mapping[str, tuple[float, float]]


class JobAgreement(NamedTuple):
    """The errors of a simulated run against a recorded one."""

    jobs: int  # Number of jobs in both runs.
    error: float  # Mean of the jobs' absolute errors of completion.
    worst: float  # Error of completion of the job whose absolute error is the largest.
    worst_job: str  # Name of this job.
    mean_completion: float  # Error of the mean completion.
    makespan: float  # Error of the time from the first submission to the last end.
    order: float  # Kendall's tau of the orders of ends: 1 for equal orders, -1 for opposite ones.


def agreement(recorded: Run, simulated: Run) -> JobAgreement:
    """Compare the jobs that both runs have. Raises ValueError if there are none."""
    jobs = [job for job in recorded if job in simulated]
    if not jobs:
        raise ValueError("the runs have no job in common")
    real, made = ({job: run[job] for job in jobs} for run in (recorded, simulated))
    errors = {job: _error(_completion(real[job]), _completion(made[job])) for job in jobs}
    worst_job = max(jobs, key=lambda job: abs(errors[job]))
    return JobAgreement(
        jobs=len(jobs),
        error=mean(map(abs, errors.values())),
        worst=errors[worst_job],
        worst_job=worst_job,
        mean_completion=_error(mean_completion(real), mean_completion(made)),
        makespan=_error(_makespan(real), _makespan(made)),
        order=_tau([(real[job][1], made[job][1]) for job in jobs]),
    )


def mean_run(repeats: Sequence[Run]) -> dict[str, tuple[float, float]]:
    """Return the mean submit and finish times of each job that all repeats have."""
    jobs = [job for job in repeats[0] if all(job in run for run in repeats)]
    return {job: (mean(run[job][0] for run in repeats), mean(run[job][1] for run in repeats)) for job in jobs}


def mean_completion(run: Run) -> float:
    """Return the mean of the jobs' completions in seconds."""
    return mean(map(_completion, run.values()))


def _completion(job: tuple[float, float]) -> float:
    return job[1] - job[0]


def _makespan(run: Run) -> float:
    return max(finish for _, finish in run.values()) - min(submit for submit, _ in run.values())


def _error(real: float, made: float) -> float:
    return made / real - 1


def _tau(ends: Sequence[tuple[float, float]]) -> float:
    """Return Kendall's tau-b of the ends in the two runs, 1 if all jobs end together in one of them."""
    if len(ends) == 1:
        return 1.0
    from scipy.stats import kendalltau

    found: Any = kendalltau([real for real, _ in ends], [made for _, made in ends])
    tau = float(found.statistic)
    return 1.0 if isnan(tau) else tau
