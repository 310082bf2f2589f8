"""Typed slots of which a node uses no more than its part of the load (Hadoop 1's fair scheduler).

A node runs at most ceil(its slots x min(1, tasks that could run / all slots)) tasks of a kind, so that few tasks
are spread over all nodes. Source: CapBasedLoadManager of Hadoop 1.0.3, with a load.max.diff of 0.
"""

from __future__ import annotations

from math import ceil
from typing import Any

from schedbed.scheduler.admission.slots import Slots
from schedbed.scheduler.hooks import QUIET
from schedbed.scheduler.registry.declarations import Axis
from schedbed.scheduler.view import JobView, NodeView, View
from schedbed.tasks.specs import TaskKind


class Spread(Slots):
    """An admission axis that accepts tasks as long as the node has less than its part of them."""

    quiet = QUIET

    def __init__(self) -> None:
        self._view: View | None = None  # For `room`, which does not receive it.
        self._wants: dict[tuple[str, TaskKind], int] = {}  # Running and startable tasks of each job.
        self._total = dict.fromkeys(TaskKind, 0)

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes for a snapshot. The view belongs to the JobTracker that takes the snapshot."""
        return {**vars(self), "_view": None}

    def changed(self, view: View, job: JobView, kind: TaskKind) -> None:
        """Implement `Hooks.changed`: count the job's tasks that run or could."""
        self._view = view
        stage, key = job.stage(kind), (job.job, kind)
        wants = stage.running + (stage.unstarted if job.active and stage.ready else 0)
        self._total[kind] += wants - self._wants.pop(key, 0)
        if wants:
            self._wants[key] = wants

    def room(self, node: NodeView, kind: TaskKind) -> bool:
        """Implement `Admission.room`: return whether the node has a free slot and less than its part."""
        if not super().room(node, kind):
            return False
        slots = node.spec.slots(kind)
        total = slots if self._view is None else self._view.slots(kind)
        load = min(1.0, self._total[kind] / max(1, total))
        return slots - node.free_slots(kind) < ceil(slots * load - 1e-9)


AXIS = Axis(
    axis="admission",
    name="spread",
    factory=Spread,
    summary="typed slots; a node uses at most its part of them while there are fewer tasks than slots",
    paper="Hadoop 1.0.3, CapBasedLoadManager",
    rank=5,
)
