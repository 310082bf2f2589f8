"""The nodes that one job avoids, because of a full disk, many failures, or a failed task."""

from __future__ import annotations

from schedbed.tasks.specs import NodeId, TaskKind


class Avoidance:
    """The nodes that one job avoids, with the reasons.

    Reasons to avoid a node, strongest first: the node's disk is full and an attempt failed for that reason;
    at least `often` attempts of the job failed on the node; a task of the kind in question failed on the node
    and waits to run again. `excluded` holds the nodes that are avoided for at least one kind of task.
    """

    __slots__ = ("_failures", "_full", "_often", "_waiting", "excluded")

    def __init__(self, often: int) -> None:
        self.excluded: dict[NodeId, None] = {}
        self._often = often
        self._failures: dict[NodeId, int] = {}
        self._full: dict[NodeId, None] = {}
        self._waiting: dict[tuple[NodeId, TaskKind], int] = {}

    def strength(self, node: NodeId, kind: TaskKind) -> int:
        """Return the strength of the reason to avoid the node for tasks of the kind, from 0 (none) to 3."""
        if node not in self.excluded:
            return 0
        if node in self._full:
            return 3
        if self._failures.get(node, 0) >= self._often:
            return 2
        return int((node, kind) in self._waiting)

    def failed(self, node: NodeId, *, disk_full: bool) -> None:
        """Count a failure on the node; `disk_full` is true if the node's full disk caused the failure."""
        self._failures[node] = self._failures.get(node, 0) + 1
        if disk_full:
            self._full[node] = None
        self._settle(node)

    def freed(self, node: NodeId) -> None:
        """Remove the reason that the node's disk was full."""
        self._full.pop(node, None)
        self._settle(node)

    def waits(self, node: NodeId, kind: TaskKind) -> None:
        """Count a task of the kind that failed on the node and waits to run again."""
        self._waiting[node, kind] = self._waiting.get((node, kind), 0) + 1
        self._settle(node)

    def started(self, node: NodeId, kind: TaskKind) -> None:
        """Count down the waiting tasks of the kind: a task that had failed on the node has started again."""
        self._waiting[node, kind] -= 1
        if not self._waiting[node, kind]:
            del self._waiting[node, kind]
        self._settle(node)

    def _settle(self, node: NodeId) -> None:
        """Add the node to `excluded` or remove it, according to the remaining reasons."""
        self.excluded[node] = None
        if not any(self.strength(node, kind) for kind in TaskKind):
            del self.excluded[node]
