"""The named nodes of gangs: which nodes a started job's maps run on, and how many on each."""

from __future__ import annotations

from collections.abc import Iterable

from schedbed.scheduler.models.rigid.promised_nodes import pick_nodes
from schedbed.scheduler.models.rigid.promised_slots import Places
from schedbed.scheduler.view import JobView, NodeView, View
from schedbed.tasks.specs import NodeId, TaskKind, id_key

MAP = TaskKind.MAP


class NamedPlaces:
    """The places of the started jobs that hold slots, `by_job`: the number of slots on each node."""

    def __init__(self) -> None:
        self.by_job: dict[str, dict[NodeId, int]] = {}

    def start(self, job: JobView, places: Places) -> None:
        """Give the job its places."""
        self.by_job[job.job] = dict(places)

    def release(self, job: JobView) -> None:
        """Forget the job's places, if it has any."""
        self.by_job.pop(job.job, None)

    def allows(self, job: JobView, node: NodeView) -> bool:
        """Return whether the job may start one more map on the node: on any node if it holds no places."""
        places = self.by_job.get(job.job)
        return places is None or places.get(node.node, 0) > _held(job, node)

    def move(self, view: View, jobs: Iterable[JobView]) -> None:
        """Give the jobs free slots of other nodes for those of nodes that are lost or that they avoid."""
        for job in jobs:
            places = self.by_job.get(job.job)
            if places is None:
                continue
            for name in places:
                node = view.nodes[name]
                if not node.alive or view.avoids(job, node, MAP):
                    places[name] = _held(job, node)
            lacks = min(job.maps.total - sum(places.values()), job.maps.unstarted)
            if lacks > 0:
                self._add(view, job, places, lacks)

    def _add(self, view: View, job: JobView, places: dict[NodeId, int], lacks: int) -> None:
        nodes = [view.nodes[name] for name in sorted(view.nodes, key=id_key) if view.nodes[name].alive]
        free = [0 if view.avoids(job, node, MAP) else self._free(node) for node in nodes]
        found = pick_nodes(free, min(lacks, sum(count for count in free if count > 0)))
        for i, count in (found or {}).items():
            name = nodes[i].node
            places[name] = places.get(name, 0) + count

    def _free(self, node: NodeView) -> int:
        return node.spec.map_slots - sum(places.get(node.node, 0) for places in self.by_job.values())


def _held(job: JobView, node: NodeView) -> int:
    """Return the number of the job's maps that run on the node."""
    return sum(each.task.job is job and each.task.kind is MAP for each in node.attempts.values())
