"""Gangs: jobs that occupy one map slot for each of their maps at once, and keep all of these slots until the
last map has ended."""

from __future__ import annotations

from schedbed.scheduler.view import JobView, View
from schedbed.tasks.specs import TaskKind

MAP = TaskKind.MAP


def gang_size(view: View, job: JobView) -> int:
    """Return the number of map slots that the job needs to start: one per map, at most all slots of the
    cluster."""
    return min(job.maps.total, view.slots(MAP))


class Gangs:
    """A table of the jobs that have started as gangs, in the order of their start.

    `held`: a dictionary from job id to the number of map slots that the job holds. `started`: all gangs that
    have not ended. `starting`: the gangs that still have unstarted maps.
    """

    def __init__(self) -> None:
        self.held: dict[str, int] = {}
        self.starting: dict[str, JobView] = {}
        self.started: dict[str, JobView] = {}

    def free(self, view: View) -> int:
        """Return the number of the cluster's map slots that no gang holds."""
        return view.slots(MAP) - sum(self.held.values())

    def start(self, view: View, job: JobView) -> None:
        """Record the start of a job as a gang, which holds its map slots from now on."""
        self.held[job.job] = gang_size(view, job)
        self.started[job.job] = self.starting[job.job] = job

    def changed(self, job: JobView) -> bool:
        """Update the table after maps of the job have started or ended.

        Return whether the job released its map slots. A gang releases all slots together when its last map
        has ended.
        """
        if job.job not in self.started:
            return False
        if job.maps.unstarted:
            self.starting[job.job] = job
            return False
        self.starting.pop(job.job, None)
        return not job.maps.running and self.held.pop(job.job, None) is not None

    def finished(self, job: JobView) -> bool:
        """Remove an ended job from the table. Return whether the job still held slots, which are now free."""
        self.started.pop(job.job, None)
        self.starting.pop(job.job, None)
        return self.held.pop(job.job, None) is not None
