"""Rigid jobs, as recorded by parallel machines: a job on n processors becomes n maps with the job's run
time.
"""

from __future__ import annotations

from collections.abc import Iterable

from schedbed.tasks.traces.trace import TraceJob

ASSUMED = (
    "assumed: a job on n processors is n maps of its run time, which start one by one unless the policy is easy or "
    "has admission=gang"
)


def most_at_once(jobs: Iterable[TraceJob]) -> int:
    """Return the largest number of processors that the jobs used at the same time.

    The recorded duration of a job, if known, includes its wait in the queue. The job is assumed to have run
    at the end of this duration.
    """
    changes: list[tuple[float, int]] = []
    for job in jobs:
        run_s = job.maps[0].duration_s or 0.0
        end_s = job.submit_s + (job.duration_s or run_s)
        changes += [(end_s - run_s, len(job.maps)), (end_s, -len(job.maps))]
    busy = most = 0
    for _, change in sorted(changes):  # At equal times, ends come first, since they are negative.
        busy += change
        most = max(most, busy)
    return most
