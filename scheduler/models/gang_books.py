"""Which jobs hold processors as gangs: all map slots of a job from its start until its last map has ended."""

from __future__ import annotations

from schedbed.scheduler.view import JobView, View
from schedbed.tasks.specs import TaskKind

MAP = TaskKind.MAP


def gang_size(view: View, job: JobView) -> int:
    """Return how many map slots the job needs at once: one a map, or all that there are."""
    return min(job.maps.total, view.slots(MAP))


class GangBooks:
    """The gangs that have started, in that order, with what they hold. `starting` have maps left to launch."""

    def __init__(self) -> None:
        self.held: dict[str, int] = {}
        self.starting: dict[str, JobView] = {}
        self.started: dict[str, JobView] = {}

    def free(self, view: View) -> int:
        """Return how many map slots no gang holds."""
        return view.slots(MAP) - sum(self.held.values())

    def start(self, view: View, job: JobView) -> None:
        """Note that a job has its processors from now on."""
        self.held[job.job] = gang_size(view, job)
        self.started[job.job] = self.starting[job.job] = job

    def changed(self, job: JobView) -> bool:
        """Follow a job's maps; return whether processors became free.

        A gang keeps what it has while any of its maps is to run, also those whose own maps have ended.
        """
        if job.job not in self.started:
            return False
        if job.maps.unstarted:
            self.starting[job.job] = job
            return False
        self.starting.pop(job.job, None)
        return not job.maps.running and self.held.pop(job.job, None) is not None

    def finished(self, job: JobView) -> bool:
        """Forget a job that has ended; return whether that frees processors."""
        self.started.pop(job.job, None)
        self.starting.pop(job.job, None)
        return self.held.pop(job.job, None) is not None
