"""Which nodes reach each other."""

from __future__ import annotations

from collections.abc import Sequence

from schedbed.tasks.specs import NodeId


class Partition:
    """Groups of nodes that a network fault keeps apart; without one all reach each other."""

    __slots__ = ("_group",)

    def __init__(self, groups: Sequence[Sequence[NodeId]] = ()) -> None:
        self._group = {node: number for number, group in enumerate(groups, 1) for node in group}

    def joins(self, one: NodeId, other: NodeId) -> bool:
        """Tell whether a new connection between the two comes about."""
        group = self._group
        return not group or group.get(one, 0) == group.get(other, 0)
