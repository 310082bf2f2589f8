"""Nodes that are kept for a container too large for their free room, as YARN's schedulers reserve them."""

from __future__ import annotations

from typing import NamedTuple

from schedbed.scheduler.view import JobView
from schedbed.tasks.specs import NodeId, TaskKind


class Kept(NamedTuple):
    """The job that a node is kept for, and for how many of its containers (`left`)."""

    job: JobView
    kind: TaskKind
    left: int = 1


class Reservations:
    """The kept nodes. A node is kept for one job at a time, and serves no other meanwhile."""

    def __init__(self) -> None:
        self._kept: dict[NodeId, Kept] = {}

    def at(self, node: NodeId) -> Kept | None:
        return self._kept.get(node) if self._kept else None

    def nodes_of(self, job: str, kind: TaskKind) -> list[NodeId]:
        """Return the nodes kept for containers of that kind of the job."""
        return [node for node, kept in self._kept.items() if kept.job.job == job and kept.kind is kind]

    def count(self, job: str, kind: TaskKind) -> int:
        """Return the number of containers of that kind for which the job has nodes kept."""
        return sum(self._kept[node].left for node in self.nodes_of(job, kind)) if self._kept else 0

    def keep(self, node: NodeId, job: JobView, kind: TaskKind, left: int = 1) -> None:
        """Keep the node for the job."""
        self._kept[node] = Kept(job, kind, left)

    def take(self, node: NodeId) -> None:
        """Note that a container has started for which the node was kept."""
        kept = self._kept.pop(node)
        if kept.left > 1:
            self._kept[node] = kept._replace(left=kept.left - 1)

    def release(self, node: NodeId) -> Kept | None:
        """Keep the node no longer. Return what it was kept for."""
        return self._kept.pop(node, None)

    def trim(self, job: JobView, kind: TaskKind) -> None:
        """Release nodes, the first kept first, that are kept for more containers than the job has unstarted tasks."""
        if not self._kept:
            return
        asked = job.stage(kind).unstarted if job.active else 0
        nodes = self.nodes_of(job.job, kind)
        count = self.count(job.job, kind)
        for node in nodes:
            if count <= asked:
                return
            count -= self._kept.pop(node).left

    def forget(self, job: str) -> None:
        """Release all nodes that are kept for the job."""
        for kind in TaskKind:
            for node in self.nodes_of(job, kind):
                del self._kept[node]
