"""Nodes that are kept for a container too large for their free room, as YARN's schedulers reserve them."""

from __future__ import annotations

from typing import NamedTuple

from schedbed.scheduler.view import JobView, StageView
from schedbed.tasks.specs import NodeId


class Kept(NamedTuple):
    """The job, and the stage of it, that a node is kept for."""

    job: JobView
    stage: StageView


class Reservations:
    """The kept nodes. A node is kept for one container at a time, and serves no other meanwhile."""

    def __init__(self) -> None:
        self._kept: dict[NodeId, Kept] = {}

    def at(self, node: NodeId) -> Kept | None:
        return self._kept.get(node) if self._kept else None

    def nodes_of(self, stage: StageView) -> list[NodeId]:
        """Return the nodes kept for containers of the stage."""
        return [node for node, kept in self._kept.items() if kept.stage is stage] if self._kept else []

    def keep(self, node: NodeId, job: JobView, stage: StageView) -> None:
        """Keep the node for a container of the job."""
        self._kept[node] = Kept(job, stage)

    def release(self, node: NodeId) -> Kept | None:
        """Keep the node no longer. Return what it was kept for."""
        return self._kept.pop(node, None)

    def trim(self, job: JobView) -> None:
        """Release nodes, the first kept first, that are kept for more containers than the job has unstarted tasks."""
        if not self._kept:
            return
        for stage in job.stages:
            nodes = self.nodes_of(stage)
            asked = stage.unstarted if job.active else 0
            for node in nodes[: max(0, len(nodes) - asked)]:
                del self._kept[node]

    def forget(self, job: str) -> None:
        """Release all nodes that are kept for the job."""
        self._kept = {node: kept for node, kept in self._kept.items() if kept.job.job != job}
