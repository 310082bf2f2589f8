"""Greedy locality: start a node-local map if possible, else a rack-local map, else any map.

Jobs never wait.
"""

from __future__ import annotations

from schedbed.scheduler.policy import Proposal
from schedbed.scheduler.registry.declarations import Axis
from schedbed.scheduler.view import JobView, NodeView, View


class Greedy:
    """A locality axis that immediately starts the unstarted map whose input is nearest."""

    elidable = True  # Heartbeats that report no change do not affect its answers.
    compiled_as = "greedy"

    def pick(self, view: View, node: NodeView, job: JobView) -> Proposal | str | None:
        """Implement `Locality.pick`: propose a node-local map, else a rack-local map, else any map."""
        task = job.local_map(node.node)
        if task is not None:
            return Proposal(task, "node-local")
        task = job.rack_map(node.rack)
        if task is not None:
            return Proposal(task, "rack-local")
        task = job.any_map()
        if task is None:
            return "no unstarted map"
        return Proposal(task, "off-rack" if task.hosts else "no preferred node")


AXIS = Axis(
    axis="locality",
    name="greedy",
    factory=Greedy,
    summary="the nearest map there is, at once",
    paper="Hadoop",
    rank=0,
)
