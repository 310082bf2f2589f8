"""Gang start: the maps of a job start only when there are free map slots for all of them at once.

The job keeps the slots until all its maps have ended. Reduces use any free slot. No slots are reserved for a
job that waits. With the order axis `fifo`, a later job that needs fewer slots may therefore start before an
earlier job. The policy `easy` is first in, first out with reservations.
"""

from __future__ import annotations

from schedbed.scheduler.models.gangs import Gangs, gang_size
from schedbed.scheduler.policy import Limits
from schedbed.scheduler.registry.declarations import Axis
from schedbed.scheduler.view import JobView, NodeView, View
from schedbed.tasks.specs import TaskKind

MAP = TaskKind.MAP


class Gang:
    """An admission axis with typed slots that starts all maps of a job together.

    A started job keeps its slots until its maps have ended.
    """

    limits = Limits(slots=True)

    def __init__(self) -> None:
        self._gangs = Gangs()
        self._view: View | None = None

    def submitted(self, view: View, job: JobView) -> None:
        """Implement `Hooks.submitted`: store the view, which `refuses` needs but does not receive."""
        self._view = view

    def changed(self, view: View, job: JobView, kind: TaskKind) -> None:
        """Implement `Hooks.changed`: release the job's reserved slots if all its maps have ended."""
        if kind is MAP:
            self._gangs.changed(job)

    def finished(self, view: View, job: JobView) -> None:
        """Implement `Hooks.finished`: release the slots reserved for the job."""
        self._gangs.finished(job)

    def room(self, node: NodeView, kind: TaskKind) -> bool:
        """Implement `Admission.room`: return whether the node has a free slot of the kind."""
        return node.free_slots(kind) > 0

    def refuses(self, node: NodeView, job: JobView, kind: TaskKind) -> str | None:
        """Implement `Admission.refuses`: return a text if a job's maps need more slots at once than are free.

        Otherwise reserve the slots for the job, and accept all its maps from then on.
        """
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
