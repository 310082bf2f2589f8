"""Values that are computed from the attempts of a node, and kept until these attempts change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from schedbed.scheduler.view import NodeView
from schedbed.tasks.specs import NodeId

T = TypeVar("T")


class NodeMemo(Generic[T]):
    """The results of the function `compute` for nodes.

    A result is computed again after an attempt on the node has started, has ended or was ordered to stop. The
    core counts these events in the attribute `turn` of its nodes. For nodes without this attribute, each call
    computes the result.
    """

    __slots__ = ("_compute", "_kept")

    def __init__(self, compute: Callable[[NodeView], T]) -> None:
        self._compute = compute
        self._kept: dict[NodeId, tuple[NodeView, int, T]] = {}

    def of(self, node: NodeView) -> T:
        """Return the result of `compute(node)`."""
        turn: int = getattr(node, "turn", -1)
        kept = self._kept.get(node.node)
        if kept is not None and kept[1] == turn and kept[0] is node:
            return kept[2]
        result = self._compute(node)
        if turn >= 0:
            self._kept[node.node] = (node, turn, result)
        return result

    def clear(self) -> None:
        """Forget all results, because something else on which they depend has changed."""
        self._kept.clear()
