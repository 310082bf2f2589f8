"""The policy Fair with a limit on the number of maps that run on a node at the same time.

Figure 3 compares several numbers of map slots. With the limit, all of them run on the same cluster.
"""

from __future__ import annotations

from pathlib import Path

from schedbed.scheduler.admission.slots import Slots
from schedbed.scheduler.locality.greedy import Greedy
from schedbed.scheduler.order.fair import Fair
from schedbed.scheduler.policy import Composed
from schedbed.scheduler.view import NodeView
from schedbed.tasks.specs import TaskKind


def fair_spec(map_slots: int) -> str:
    """Return the SPEC (text form) of the policy Fair with at most `map_slots` running maps per node."""
    return f"{Path(__file__)}:FairSlots:map_slots={map_slots}"


class Fewer(Slots):
    """The admission rule of a policy that runs at most `map_slots` maps on a node at a time."""

    def __init__(self, map_slots: int) -> None:
        self._map_slots = map_slots

    def room(self, node: NodeView, kind: TaskKind) -> bool:
        """Implement `Admission.room`: return whether the node has a free slot within the limit."""
        free = node.free_slots(kind)
        return free > (max(0, node.spec.map_slots - self._map_slots) if kind is TaskKind.MAP else 0)


class FairSlots(Composed):
    """The policy `fair` with at most `map_slots` maps on a node at a time."""

    def __init__(self, *, map_slots: int) -> None:
        super().__init__(Fair(), Greedy(), Fewer(map_slots))
