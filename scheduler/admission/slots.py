"""Typed slots, as in Hadoop MRv1: a map needs a map slot, a reduce a reduce slot, regardless of declared
resources."""

from __future__ import annotations

from schedbed.scheduler.policy import Limits
from schedbed.scheduler.registry.declarations import Axis
from schedbed.scheduler.view import JobView, NodeView
from schedbed.tasks.specs import TaskKind


class Slots:
    """Admission axis: any task of a kind fits if a slot of that kind is free."""

    limits = Limits(slots=True)
    takes_any = True
    elidable = True  # heartbeats that bring nothing mean nothing to it
    compiled_as = "slots"

    def room(self, node: NodeView, kind: TaskKind) -> bool:
        """Implement `Admission`."""
        return node.free_slots(kind) > 0

    def refuses(self, node: NodeView, job: JobView, kind: TaskKind) -> str | None:
        """Implement `Admission`: never refuse, because a free slot takes any task."""
        return None


AXIS = Axis(
    axis="admission",
    name="slots",
    factory=Slots,
    summary="typed map and reduce slots",
    paper="Hadoop MRv1",
    rank=0,
)
