"""The nodes that one job avoids, with the reason: a full disk, too many failures, or a failed task that waits to run
again."""

from __future__ import annotations

from schedbed.tasks.specs import NodeId, TaskKind


class Avoidance:
    """The nodes that one job avoids. `excluded` holds each node that is avoided for at least one kind of task.

    Reasons, strongest first: the node's disk is full and an attempt failed for that reason; `often` attempts of the
    job failed there; a task of the kind in question failed there and waits to run again.
    """

    __slots__ = ("_failures", "_full", "_often", "_waiting", "excluded")

    def __init__(self, often: int) -> None:
        self.excluded: dict[NodeId, None] = {}
        self._often = often
        self._failures: dict[NodeId, int] = {}
        self._full: dict[NodeId, None] = {}
        self._waiting: dict[tuple[NodeId, TaskKind], int] = {}

    def strength(self, node: NodeId, kind: TaskKind) -> int:
        """Return the strength of the reason to avoid the node for tasks of that kind, from 0 (none) to 3."""
        if node not in self.excluded:
            return 0
        if node in self._full:
            return 3
        if self._failures.get(node, 0) >= self._often:
            return 2
        return int((node, kind) in self._waiting)

    def failed(self, node: NodeId, *, disk_full: bool) -> None:
        """Count a failure there; `disk_full` when the node's full disk is the cause."""
        self._failures[node] = self._failures.get(node, 0) + 1
        if disk_full:
            self._full[node] = None
        self._settle(node)

    def freed(self, node: NodeId) -> None:
        """Forget that the node's disk was full."""
        self._full.pop(node, None)
        self._settle(node)

    def waits(self, node: NodeId, kind: TaskKind) -> None:
        """Note that a task of that kind failed on the node and waits to run again."""
        self._waiting[node, kind] = self._waiting.get((node, kind), 0) + 1
        self._settle(node)

    def started(self, node: NodeId, kind: TaskKind) -> None:
        """Note that a task of that kind that had failed on the node has started again."""
        self._waiting[node, kind] -= 1
        if not self._waiting[node, kind]:
            del self._waiting[node, kind]
        self._settle(node)

    def _settle(self, node: NodeId) -> None:
        """Add the node to `excluded` or remove it, according to the reasons that are left."""
        self.excluded[node] = None
        if not any(self.strength(node, kind) for kind in TaskKind):
            del self.excluded[node]
