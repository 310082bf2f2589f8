"""Greedy locality: start a node-local map if possible, else a rack-local map, else any map. Jobs never wait."""

from __future__ import annotations

from schedbed.scheduler.hooks import QUIET, Proposal
from schedbed.scheduler.policy import nearest_map
from schedbed.scheduler.registry.declarations import Axis
from schedbed.scheduler.view import JobView, NodeView, View


class Greedy:
    """A locality axis that immediately starts the unstarted map whose input is nearest."""

    quiet = QUIET

    def pick(self, view: View, node: NodeView, job: JobView) -> Proposal | str | None:
        """Implement `Locality.pick`: propose a node-local map, else a rack-local map, else any map."""
        return nearest_map(node, job)


AXIS = Axis(
    axis="locality",
    name="greedy",
    factory=Greedy,
    summary="a job starts its nearest map at once, even on a node without its data",
    paper="Hadoop",
    rank=0,
)
