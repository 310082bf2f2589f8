"""Gangs: jobs that occupy one map slot for each of their maps at once, and keep all of these slots until the
last map has ended."""

from __future__ import annotations

from schedbed.scheduler.view import JobView
from schedbed.tasks.specs import TaskKind

MAP = TaskKind.MAP


class Gangs:
    """A table of the jobs that have started as gangs, in the order of their start.

    `held`: a dictionary from job id to the number of map slots that the job holds. `started`: all gangs that
    have not ended. `starting`: the gangs that still have unstarted maps. `turn`: a counter that grows when a
    gang has released its slots, or when tasks may start that could not start before.
    """

    def __init__(self) -> None:
        self.held: dict[str, int] = {}
        self.starting: dict[str, JobView] = {}
        self.started: dict[str, JobView] = {}
        self.turn = 0
        self._held_slots = 0  # The sum of `held`.
        self._reducing: dict[str, None] = {}  # Jobs with reduces that may start.
        self._is_stirred = False  # Whether tasks have become ready since the last offer of a slot.

    @property
    def may_start(self) -> bool:
        """Return whether a task of a gang may start, or tasks have become ready since the last offer."""
        return self._is_stirred or bool(self.starting) or bool(self._reducing)

    def stage_ready(self) -> None:
        """Record that tasks of some job have become ready, before the call of `changed` says which."""
        self._is_stirred = True
        self.turn += 1

    def offered(self) -> None:
        """Record that a slot is offered, after all calls of `changed` that were due."""
        self._is_stirred = False

    def free(self, slots: int) -> int:
        """Return how many of the cluster's map slots (`slots`) no gang holds. Negative if slots were lost."""
        return slots - self._held_slots

    def start(self, job: JobView, size: int) -> None:
        """Record the start of a job as a gang, which holds `size` map slots from now on."""
        self.held[job.job] = size
        self._held_slots += size
        self.started[job.job] = self.starting[job.job] = job
        self.turn += 1

    def changed(self, job: JobView, kind: TaskKind) -> bool:
        """Update the table after maps or reduces (`kind`) of the job have started or ended.

        Return whether the job released its map slots. A gang releases all slots together when its last map
        has ended.
        """
        could_start = len(self.starting) + len(self._reducing)
        released = False
        if kind is MAP:
            released = self._maps_changed(job)
        elif job.reduces.ready:
            self._reducing[job.job] = None
        else:
            self._reducing.pop(job.job, None)
        if released or len(self.starting) + len(self._reducing) > could_start:
            self.turn += 1
        return released

    def _maps_changed(self, job: JobView) -> bool:
        if job.job not in self.started:
            return False
        if job.maps.unstarted:
            self.starting[job.job] = job
            return False
        self.starting.pop(job.job, None)
        return not job.maps.running and self._release(job)

    def finished(self, job: JobView) -> bool:
        """Remove an ended job from the table. Return whether the job still held slots, which are now free."""
        self.turn += 1
        self.started.pop(job.job, None)
        self.starting.pop(job.job, None)
        self._reducing.pop(job.job, None)
        return self._release(job)

    def _release(self, job: JobView) -> bool:
        """Release the slots that the job holds. Return whether it held any."""
        size = self.held.pop(job.job, None)
        self._held_slots -= size or 0
        return size is not None


class StartsGangs:
    """The base class of a policy or an admission that starts gangs, and whose nodes may rest meanwhile.

    A subclass adds the method `rests` of `simulate.elision.Resting`.
    """

    def __init__(self) -> None:
        self._gangs = Gangs()

    @property
    def rest_turn(self) -> int:
        """Implement `Resting.rest_turn`."""
        return self._gangs.turn

    def stage_ready(self, job: JobView, kind: TaskKind) -> None:
        """Implement `Resting.stage_ready`: resume offers to all nodes."""
        self._gangs.stage_ready()
