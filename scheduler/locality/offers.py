"""The locality wait of YARN's FairScheduler: a job passes up a share of the cluster's nodes in offers, not in seconds.

Source: FSAppAttempt.getAllowedLocalityLevel, assignContainer and allocate of Hadoop 3.4.1. Each heartbeat of a node
that is large enough for a container of the job is an offer, even if the node is full, unless a job before it takes
the heartbeat. Offers count on after a launch. Not modeled: continuous scheduling, whose waits are in time
(locality-delay-node-ms, locality-delay-rack-ms); the wait of maps that run again, which have a priority of their own.
"""

from __future__ import annotations

from schedbed.scheduler.models.locality_timer import ANY, NODE, RACK
from schedbed.scheduler.policies.explained import Explained
from schedbed.scheduler.policy import (
    UNSAID,
    Admission,
    Order,
    Proposal,
    nearest_map,
)
from schedbed.scheduler.registry.declarations import Axis
from schedbed.scheduler.registry.parameters import number
from schedbed.scheduler.view import JobView, NodeView, View
from schedbed.tasks.specs import TaskKind


class Passed:
    """The level at which a job may start maps, and the offers since the job reached that level."""

    __slots__ = ("level", "offers")

    def __init__(self) -> None:
        self.level: int | None = None  # None before the first offer.
        self.offers = 0


class Offers:
    """A locality axis in which a level is left after more offers than its threshold times the number of nodes.

    `locality_threshold_node`, `locality_threshold_rack`: the thresholds of the levels node and rack, from 0 to 1. If
    one of them is negative, jobs never wait.
    """

    reads_progress = False

    def __init__(self, *, locality_threshold_node: float = -1, locality_threshold_rack: float = -1) -> None:
        self._thresholds = {NODE: locality_threshold_node, RACK: locality_threshold_rack}
        self.waits = min(self._thresholds.values()) >= 0
        self.counts_picks = True  # An `OfferCounting` counts all offers itself, and sets this to false.
        self._passed: dict[str, Passed] = {}
        self._nodes = 0

    @property
    def elidable(self) -> bool:
        """Return whether heartbeats that report no change do not affect the answers: jobs do not wait."""
        return not self.waits

    @property
    def acts_on_ticks(self) -> bool:
        return self.waits

    def tick(self, view: View) -> None:
        """Implement `Hooks.tick`: count the live nodes."""
        self._nodes = sum(node.alive for node in view.nodes.values())

    def finished(self, view: View, job: JobView) -> None:
        """Implement `Hooks.finished`: forget the job's offers."""
        self._passed.pop(job.job, None)

    def count(self, view: View, node: NodeView, job: JobView) -> None:
        """Count the offer of the node if a container of the job could ever fit, and move to the next level if due."""
        demand = job.maps.demand
        if demand.memory_bytes > node.spec.memory_bytes or demand.vcores > node.spec.cores:
            return
        passed = self._passed.setdefault(job.job, Passed())
        passed.offers += 1
        if not self._nodes:
            self.tick(view)
        if passed.level is None:  # The first offer is not compared.
            passed.level = NODE
        elif passed.level != ANY and passed.offers > self._thresholds[passed.level] * self._nodes:
            passed.level, passed.offers = RACK if passed.level == NODE else ANY, 0

    def pick(self, view: View, node: NodeView, job: JobView) -> Proposal | str | None:
        """Implement `Locality.pick`: propose the nearest map that the job's level allows.

        A map nearer than the level makes that its level again.
        """
        if not self.waits:
            return nearest_map(node, job)
        if self.counts_picks:
            self.count(view, node, job)
        passed = self._passed.setdefault(job.job, Passed())
        level = NODE if passed.level is None else passed.level
        task = job.local_map(node.node)
        if task is not None:
            passed.level = NODE
            return Proposal(task, "node-local")
        task = job.free_map()
        if task is not None:
            return Proposal(task, "no preferred node")
        task = job.rack_map(node.rack) if level >= RACK else None
        if task is not None:
            passed.level = RACK
            return Proposal(task, "rack-local")
        task = job.any_map() if level == ANY else None
        if task is not None:
            return Proposal(task, "off-rack")
        most = self._thresholds[level] * self._nodes
        place = "local node" if level == NODE else "node in the rack of its data"
        return f"waits for a {place}, {most:g} offers"


class OfferCounting(Explained):
    """A composed policy that counts each offer for the locality, before the admission is asked."""

    def __init__(self, order: Order, locality: Offers, admission: Admission) -> None:
        super().__init__(order, locality, admission)
        self._offers = locality
        locality.counts_picks = False
        self._is_full = False

    def _has_room(self, view: View, node: NodeView, kind: TaskKind) -> bool:
        """Return true for maps even if the node is full: jobs count this as an offer."""
        self._is_full = not super()._has_room(view, node, kind)
        return kind is TaskKind.MAP or not self._is_full

    hears_full_nodes = True

    def pass_full(self, view: View, node: NodeView, job: JobView) -> None:
        """Count the offer of a node without room."""
        self._offers.count(view, node, job)

    def _offer(self, view: View, node: NodeView, job: JobView, kind: TaskKind) -> Proposal | str | None:
        if kind is TaskKind.MAP and not (job.excluded and view.avoids(job, node, kind)):
            self._offers.count(view, node, job)
        return UNSAID if self._is_full else super()._offer(view, node, job, kind)


def _compose(order: Order, locality: Offers, admission: Admission) -> OfferCounting | None:
    return OfferCounting(order, locality, admission) if locality.waits else None


def threshold(raw: object) -> float:
    """Parse a share of the nodes from 0 to 1, or a negative number for never waiting. Raises ValueError."""
    try:
        value = float(str(raw))
    except ValueError:
        value = 2.0
    if not -1 <= value <= 1:
        raise ValueError(f"{raw!r} is not a share of the nodes (0 to 1, or -1 for no wait)")
    return value


AXIS = Axis(
    axis="locality",
    name="yarn-fair-wait",
    factory=Offers,
    summary="a job passes up offers of nodes without its data, as many as a share of all nodes",
    paper="Hadoop 3.4.1, FSAppAttempt",
    parameters=(
        number(
            "locality_threshold_node",
            "-1",
            "",
            "offers that a job passes up before it starts a map in the rack of its data, as a share of all nodes "
            "(yarn.scheduler.fair.locality.threshold.node); -1 for no wait",
            threshold,
        ),
        number(
            "locality_threshold_rack",
            "-1",
            "",
            "further offers before it starts a map anywhere, as a share of all nodes "
            "(yarn.scheduler.fair.locality.threshold.rack); -1 for no wait, also for the node",
            threshold,
        ),
    ),
    compose=_compose,
    rank=15,
)
