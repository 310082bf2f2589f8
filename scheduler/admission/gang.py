"""Gang start: the maps of a job start only when there are free map slots for all of them at once.

The job keeps the slots until all its maps have ended; reduces use any slot. Nothing is reserved for a waiting
job, so with `fifo` a later, smaller job may start earlier (`easy` has reservations). A waiting job refuses
all nodes, and gives the reason again only when it has changed.
"""

from __future__ import annotations

from typing import Any

from schedbed.scheduler.hooks import Limits, Quiet
from schedbed.scheduler.models.rigid.gangs import StartsGangs
from schedbed.scheduler.policy import UNSAID
from schedbed.scheduler.registry.declarations import Axis
from schedbed.scheduler.view import JobView, NodeView, View
from schedbed.tasks.specs import TaskKind

MAP = TaskKind.MAP


class Gang(StartsGangs):
    """An admission axis with typed slots that starts all maps of a job together.

    A started job keeps its slots until its maps have ended.
    """

    limits = Limits(slots=True)
    keeps_slots = True  # They stay with the gang when an attempt is killed.

    def __init__(self) -> None:
        super().__init__()
        self._view: View | None = None  # For `room`, which does not receive it.
        self._waiting: dict[str, JobView] = {}
        self._unsaid: dict[str, None] = {}  # Waiting jobs that have not said how many slots they lack.
        self._least: int | None = None  # The number of slots of the smallest waiting job, if known.
        self._slots = self._free = 0  # All map slots, and those without a gang, as of the last offer.

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes for a snapshot, without the view of the JobTracker that takes it."""
        return {**vars(self), "_view": None}

    def submitted(self, view: View, job: JobView) -> None:
        """Implement `Hooks.changed`: free the job's slots if all its maps have ended."""
        self._view = view
        self._waiting[job.job] = job
        self._unsaid[job.job] = None
        self._least = None

    def changed(self, view: View, job: JobView, kind: TaskKind) -> None:
        """Implement `Admission.room`."""
        self._gangs.changed(job, kind)

    def finished(self, view: View, job: JobView) -> None:
        """Implement `Hooks.finished`: free the job's slots."""
        self._leave(job)
        self._gangs.finished(job)

    def _leave(self, job: JobView) -> None:
        self._waiting.pop(job.job, None)
        self._unsaid.pop(job.job, None)
        self._least = None

    # Resting nodes

    @property
    def quiet(self) -> Quiet:
        """Implement `Hooks.quiet`: nodes may rest."""
        return Quiet(rests=self.rests, turn=lambda: self._gangs.turn)

    def rests(self, view: View, node: NodeView) -> bool:
        """Return whether an offer has no effect: no task may start, and each waiting job has said why."""
        slots = view.slots(MAP)
        return slots == self._slots and self._gangs.free(slots) == self._free and not self._may_start()

    def is_still(self, view: View) -> bool:
        """Return whether no task may start, and each waiting job has said so, again for other free slots."""
        self._view = view
        self._gangs.offered()
        self._look(view.slots(MAP))
        return not self._may_start()

    def _look(self, slots: int) -> None:
        free = self._gangs.free(slots)
        if (slots, free) != (self._slots, self._free):
            self._slots, self._free = slots, free
            self._unsaid = dict.fromkeys(self._waiting)
            self._least = None

    def _may_start(self) -> bool:
        if self._gangs.may_start or self._unsaid:
            return True
        if self._least is None:
            sizes = (job.maps.total for job in self._waiting.values())
            self._least = min(sizes, default=self._slots + 1)
        return self._least <= self._free

    # Offers

    def room(self, node: NodeView, kind: TaskKind) -> bool:
        self._look(self._slots if self._view is None else self._view.slots(MAP))
        return node.free_slots(kind) > 0

    def refuses(self, node: NodeView, job: JobView, kind: TaskKind) -> str | None:
        """Implement `Admission.refuses`: refuse a job whose maps need more slots at once than are free.

        The text is `UNSAID` if the job has given it before. Otherwise the job keeps the slots from now on.
        """
        if kind is not MAP or job.job in self._gangs.started:
            return None
        size = job.maps.total
        if size > self._free:
            if job.job not in self._unsaid:
                return UNSAID
            del self._unsaid[job.job]
            return f"needs {size} slots at once, {max(0, self._free)} are free"
        self._leave(job)
        self._gangs.start(job, size)
        self._look(self._slots)
        return None


AXIS = Axis(
    axis="admission",
    name="gang",
    factory=Gang,
    summary="all maps of a job start at the same time, each in a map slot",
    paper="Ousterhout 1982; rigid jobs",
    rigid=True,
    rank=50,
)
