"""Network partitions, which prevent connections between groups of nodes."""

from __future__ import annotations

from collections.abc import Sequence

from schedbed.tasks.specs import NodeId


class Partition:
    """A division of the nodes into groups by a network fault.

    Nodes in no group form a group of their own. Without groups, all nodes reach each other.
    """

    __slots__ = ("_group",)

    def __init__(self, groups: Sequence[Sequence[NodeId]] = ()) -> None:
        self._group = {node: number for number, group in enumerate(groups, 1) for node in group}

    def joins(self, one: NodeId, other: NodeId) -> bool:
        """Return whether two nodes can open new connections to each other: they must be in the same group."""
        group = self._group
        return not group or group.get(one, 0) == group.get(other, 0)
