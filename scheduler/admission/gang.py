"""Gang start: a job's maps begin only when there is a free map slot for each, and keep these until all have ended.

Under `order=fifo` a later job that fits passes one that does not fit yet, without a reservation; the policy `easy` is
FIFO with reservations. Reduces take any free slot.
"""

from __future__ import annotations

from schedbed.scheduler.models.gang_books import GangBooks, gang_size
from schedbed.scheduler.policy import Limits
from schedbed.scheduler.registry.declarations import Axis
from schedbed.scheduler.view import JobView, NodeView, View
from schedbed.tasks.specs import TaskKind

MAP = TaskKind.MAP


class Gang:
    """Admission axis: typed slots, all maps of a job together. A job that has been admitted keeps its slots."""

    limits = Limits(slots=True)

    def __init__(self) -> None:
        self._gangs = GangBooks()
        self._view: View | None = None

    def submitted(self, view: View, job: JobView) -> None:
        """Implement `Hooks`: keep the view, in which `refuses` counts free slots."""
        self._view = view

    def changed(self, view: View, job: JobView, kind: TaskKind) -> None:
        """Implement `Hooks`."""
        if kind is MAP:
            self._gangs.changed(job)

    def finished(self, view: View, job: JobView) -> None:
        """Implement `Hooks`."""
        self._gangs.finished(job)

    def room(self, node: NodeView, kind: TaskKind) -> bool:
        """Implement `Admission`."""
        return node.free_slots(kind) > 0

    def refuses(self, node: NodeView, job: JobView, kind: TaskKind) -> str | None:
        """Implement `Admission`."""
        if kind is not MAP or self._view is None or job.job in self._gangs.started:
            return None
        size, free = gang_size(self._view, job), self._gangs.free(self._view)
        if size > free:
            return f"needs {size} slots at once, {max(0, free)} are free"
        self._gangs.start(self._view, job)
        return None


AXIS = Axis(
    axis="admission",
    name="gang",
    factory=Gang,
    summary="all maps of a job at once, each with a slot",
    paper="Ousterhout 1982; rigid jobs",
    rank=50,
)
