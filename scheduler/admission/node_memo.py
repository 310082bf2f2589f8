"""Values that are computed from the attempts of a node, and kept until these attempts change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

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
        self._kept: dict[NodeId, tuple[int, int, T]] = {}

    def of(self, node: NodeView) -> T:
        """Return the result of `compute(node)`."""
        core_node: Any = node
        turn: int = getattr(node, "turn", -1)
        if turn < 0:
            return self._compute(node)
        kept = self._kept.get(node.node)
        if kept is not None and kept[0] == turn and kept[1] == core_node.incarnation:
            return kept[2]
        result = self._compute(node)
        self._kept[node.node] = (turn, core_node.incarnation, result)
        return result

    def drop(self, is_stale: Callable[[T], bool]) -> None:
        """Forget the results for which `is_stale` is true."""
        for name in [name for name, kept in self._kept.items() if is_stale(kept[2])]:
            del self._kept[name]

    def clear(self) -> None:
        self._kept.clear()
