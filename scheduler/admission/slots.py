"""Typed slots, as in Hadoop MRv1, with separate slots for maps and reduces. Memory and vcores are ignored."""

from __future__ import annotations

from schedbed.scheduler.hooks import QUIET, Limits
from schedbed.scheduler.registry.declarations import Axis
from schedbed.scheduler.view import JobView, NodeView
from schedbed.tasks.specs import TaskKind


class Slots:
    """An admission axis that accepts any map or reduce if the node has a free slot of that kind."""

    limits = Limits(slots=True)
    quiet = QUIET
    takes_containers = True

    def room(self, node: NodeView, kind: TaskKind) -> bool:
        """Implement `Admission.room`."""
        return node.free_slots(kind) > 0

    def refuses(self, node: NodeView, job: JobView, kind: TaskKind) -> str | None:
        """Implement `Admission.refuses`: a free slot can hold any task of its kind."""
        return None


AXIS = Axis(
    axis="admission",
    name="slots",
    factory=Slots,
    summary="a task needs a free slot of its kind, map or reduce",
    paper="Hadoop MRv1",
    rank=0,
)
