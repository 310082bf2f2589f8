"""The nodes that one job avoids, because of a full disk, many failures, or a failed task."""

from __future__ import annotations

from schedbed.tasks.specs import NodeId, TaskKind


class Avoidance:
    """The nodes that one job avoids, with the reasons.

    A node can be avoided for three reasons. The strongest reason: an attempt failed because the node's disk
    was full, and the disk is still full. The second reason: at least `often` attempts of the job failed on
    the node. The weakest reason concerns only tasks of one kind (map or reduce): a task of this kind failed
    on the node and waits to run again. `excluded` contains the nodes avoided for maps, reduces or both.
    """

    __slots__ = ("_failures", "_full", "_often", "_waiting", "excluded")

    def __init__(self, often: int) -> None:
        self.excluded: dict[NodeId, None] = {}
        self._often = often
        self._failures: dict[NodeId, int] = {}
        self._full: dict[NodeId, None] = {}
        self._waiting: dict[tuple[NodeId, TaskKind], int] = {}

    def strength(self, node: NodeId, kind: TaskKind) -> int:
        """Return the strength of the strongest reason to avoid the node for maps or reduces (`kind`).

        The values are 3 for a full disk, 2 for many failures, 1 for a failed task that waits, and 0 for no
        reason.
        """
        if node not in self.excluded:
            return 0
        if node in self._full:
            return 3
        if self._failures.get(node, 0) >= self._often:
            return 2
        return int((node, kind) in self._waiting)

    def failed(self, node: NodeId, *, disk_full: bool) -> None:
        """Count an attempt that failed on the node.

        `disk_full` means that the node's full disk was the cause.
        """
        self._failures[node] = self._failures.get(node, 0) + 1
        if disk_full:
            self._full[node] = None
        self._settle(node)

    def freed(self, node: NodeId) -> None:
        """Record that the node's disk is no longer full."""
        self._full.pop(node, None)
        self._settle(node)

    def waits(self, node: NodeId, kind: TaskKind) -> None:
        """Record that a task of the kind (map or reduce) failed on the node and waits to run again."""
        self._waiting[node, kind] = self._waiting.get((node, kind), 0) + 1
        self._settle(node)

    def started(self, node: NodeId, kind: TaskKind) -> None:
        """Subtract 1 from the number of tasks of the kind that failed on the node and wait to run again."""
        self._waiting[node, kind] -= 1
        if not self._waiting[node, kind]:
            del self._waiting[node, kind]
        self._settle(node)

    def _settle(self, node: NodeId) -> None:
        """Add the node to `excluded` if there is a reason to avoid it, else remove it."""
        self.excluded[node] = None
        if not any(self.strength(node, kind) for kind in TaskKind):
            del self.excluded[node]
