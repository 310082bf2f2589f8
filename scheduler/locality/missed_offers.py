"""The locality wait of YARN's CapacityScheduler: a job misses offers of nodes before it starts maps off-node.

Source: RegularContainerAllocator.canAssign and doAllocation of Hadoop 3.4.1. Each time that a job with room in its
queue and under its user's limit is tried on a node, it has one more offer; a full node makes none. Not modeled: the
wait of maps that run again, which have a priority of their own.
"""

from __future__ import annotations

from schedbed.scheduler.locality.offers import compose
from schedbed.scheduler.models.locality_timer import NODE, RACK
from schedbed.scheduler.policies.node_offers import NEAR, OfferWait
from schedbed.scheduler.registry.declarations import Axis
from schedbed.scheduler.registry.parameters import count, number, or_minus_one, switch
from schedbed.scheduler.view import JobView, NodeView, View


class MissedOffers(OfferWait):
    """A locality axis in which a job misses offers before it starts maps off-node, and more before off-rack.

    Off-node after more than `node_locality_delay` missed offers, off-rack after more than this and
    `rack_locality_additional_delay`, each at most one for each node. If the latter is negative, off-rack after more
    than the number of unstarted maps times (hosts and racks of their data / nodes, at most 1). A launch near its data
    ends the count (`rack_locality_full_reset`: also one in the rack). A full node makes no offer.
    """

    def __init__(
        self,
        *,
        node_locality_delay: int = 40,
        rack_locality_additional_delay: int | None = None,
        rack_locality_full_reset: bool = True,
    ) -> None:
        super().__init__()
        self._node_delay, self._more_delay = node_locality_delay, rack_locality_additional_delay
        self._full_reset = rack_locality_full_reset
        self._missed: dict[str, int] = {}
        self._places: dict[
            str, tuple[int, int]
        ] = {}  # Unstarted maps, and hosts and racks of their data, by job.

    def finished(self, view: View, job: JobView) -> None:
        """Implement `Hooks.finished`: forget the job's offers."""
        self._missed.pop(job.job, None)
        self._places.pop(job.job, None)

    def count(self, view: View, node: NodeView, job: JobView) -> None:
        """Count the offer as missed. A launch near its data ends the count."""
        self._missed[job.job] = self._missed.get(job.job, 0) + 1

    def declines(self, view: View, job: JobView, level: int) -> str | None:
        """Return how many offers the job has to miss, unless it has missed more."""
        most = self._most(view, job, level)
        if self._missed.get(job.job, 0) > most:
            return None
        return f"waits for a {'node' if level == RACK else 'rack'} with its data, {most:g} offers"

    def _most(self, view: View, job: JobView, level: int) -> float:
        nodes = self.nodes(view)
        if level == RACK:
            return min(nodes, self._node_delay)
        if self._more_delay is not None:
            return min(nodes, self._node_delay + self._more_delay)
        return min(nodes, job.maps.unstarted * min(self._asked_places(job) / max(1, nodes), 1.0))

    def _asked_places(self, job: JobView) -> int:
        """Return the number of hosts and racks with data of unstarted maps (getUniqueLocationAsks, without ANY)."""
        known = self._places.get(job.job)
        if known is None or known[0] != job.maps.unstarted:
            waiting = [task for task in job.maps.tasks if task.state == "unstarted"]
            names = {place for task in waiting for place in (*task.hosts, *task.racks)}
            known = self._places[job.job] = (job.maps.unstarted, len(names))
        return known[1]

    def took(self, view: View, job: JobView, place: str) -> None:
        """End the count, unless the map has no data near. Another map in the rack needs no wait without full reset."""
        if place == NEAR[NODE] or (place == NEAR[RACK] and self._full_reset):
            self._missed[job.job] = 0
        elif place == NEAR[RACK]:
            self._missed[job.job] = self._node_delay + 1


AXIS = Axis(
    axis="locality",
    name="yarn-capacity-wait",
    factory=MissedOffers,
    summary="a job misses a number of offers of nodes, at most one of each node, before it starts maps off-node",
    paper="Hadoop 3.4.1, RegularContainerAllocator",
    parameters=(
        count(
            "node_locality_delay",
            "40",
            "offers that a job misses before it starts a map in the rack of its data, at most as many as there are "
            "nodes (yarn.scheduler.capacity.node-locality-delay)",
            "offers",
        ),
        number(
            "rack_locality_additional_delay",
            "-1",
            "offers",
            "further offers before it starts a map anywhere "
            "(yarn.scheduler.capacity.rack-locality-additional-delay); -1: with the others as many as it has "
            "unstarted maps, less if their data is on few nodes",
            or_minus_one(count("offers", "0", "").read, None),
        ),
        number(
            "rack_locality_full_reset",
            "true",
            "",
            "whether a map in the rack of its data begins the count again "
            "(yarn.scheduler.capacity.rack-locality-full-reset)",
            switch,
        ),
    ),
    compose=compose,
    rank=16,
)
