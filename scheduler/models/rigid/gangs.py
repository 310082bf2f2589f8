"""Gangs: jobs that occupy one map slot for each of their maps at once, and keep all of these slots until the
last map has ended."""

from __future__ import annotations

from schedbed.scheduler.view import JobView
from schedbed.tasks.specs import TaskKind

MAP = TaskKind.MAP


class Gangs:
    """The jobs that have started as gangs, by start: `started`, and `starting` with unstarted maps.

    `held` has their map slots. `turn` grows when slots were released, or tasks may start that could not
    before.
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
        """Return whether a gang's task may start, or any became ready since the last offer."""
        return self._is_stirred or bool(self.starting) or bool(self._reducing)

    def stage_ready(self) -> None:
        """Note that some job's tasks are ready, before `changed` says which."""
        self._is_stirred = True
        self.turn += 1

    def offered(self) -> None:
        """Note an offered slot, after all due calls of `changed`."""
        self._is_stirred = False

    def free(self, slots: int) -> int:
        """Return the map slots that no gang holds, negative if slots were lost."""
        return slots - self._held_slots

    def start(self, job: JobView, size: int) -> None:
        """Record the start of a job as a gang, which holds `size` map slots from now on."""
        self.held[job.job] = size
        self._held_slots += size
        self.started[job.job] = job
        if job.maps.unstarted:
            self.starting[job.job] = job
        self.turn += 1

    def changed(self, job: JobView, kind: TaskKind) -> bool:
        """Update the table after a change, and return whether the job released its slots: all with its last map."""
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
        """Release the job's slots. Return whether it held any."""
        size = self.held.pop(job.job, None)
        self._held_slots -= size or 0
        return size is not None


class StartsGangs:
    """The base of a policy or admission that starts gangs. A subclass tells which nodes rest (`Hooks.quiet`)."""

    def __init__(self) -> None:
        self._gangs = Gangs()

    def stage_ready(self, job: JobView, kind: TaskKind) -> None:
        """Implement `Hooks.stage_ready`: resume offers to all nodes."""
        self._gangs.stage_ready()
