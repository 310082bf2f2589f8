"""Jobs that hold map slots as gangs: all slots of a job from its start until its last map has ended."""

from __future__ import annotations

from schedbed.scheduler.view import JobView, View
from schedbed.tasks.specs import TaskKind

MAP = TaskKind.MAP


def gang_size(view: View, job: JobView) -> int:
    """Return the number of map slots that the job needs at once: one per map, at most all slots."""
    return min(job.maps.total, view.slots(MAP))


class GangBooks:
    """The gangs that have started, in order, with the slots they hold. `starting` are those with unstarted maps."""

    def __init__(self) -> None:
        self.held: dict[str, int] = {}
        self.starting: dict[str, JobView] = {}
        self.started: dict[str, JobView] = {}

    def free(self, view: View) -> int:
        """Return the number of map slots that no gang holds."""
        return view.slots(MAP) - sum(self.held.values())

    def start(self, view: View, job: JobView) -> None:
        """Note that a job starts as a gang and holds its slots from now on."""
        self.held[job.job] = gang_size(view, job)
        self.started[job.job] = self.starting[job.job] = job

    def changed(self, job: JobView) -> bool:
        """Update a gang after a change of the job's maps. Return whether slots became free.

        A gang keeps all its slots until its last map has ended.
        """
        if job.job not in self.started:
            return False
        if job.maps.unstarted:
            self.starting[job.job] = job
            return False
        self.starting.pop(job.job, None)
        return not job.maps.running and self.held.pop(job.job, None) is not None

    def finished(self, job: JobView) -> bool:
        """Remove a job that has ended. Return whether that frees slots."""
        self.started.pop(job.job, None)
        self.starting.pop(job.job, None)
        return self.held.pop(job.job, None) is not None
