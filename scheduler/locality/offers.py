"""The locality wait of YARN's FairScheduler: a job passes up a share of the cluster's nodes in offers, not in seconds.

Source: FSAppAttempt.getAllowedLocalityLevel, assignContainer and allocate of Hadoop 3.4.1. Each heartbeat of a node
that is large enough for a container of the job is an offer, even if the node is full, unless a job before it takes
the heartbeat. Offers count on after a launch. Not modeled: continuous scheduling, whose waits are in time
(locality-delay-node-ms, locality-delay-rack-ms); the wait of maps that run again, which have a priority of their own.
"""

from __future__ import annotations

from schedbed.scheduler.models.locality_timer import ANY, NODE, RACK
from schedbed.scheduler.policies.node_offers import NEAR, NodeOffers, OfferWait
from schedbed.scheduler.policy import Admission, Order
from schedbed.scheduler.registry.declarations import Axis
from schedbed.scheduler.registry.parameters import number
from schedbed.scheduler.view import JobView, NodeView, View


class Passed:
    """The level at which a job may start maps, and the offers since the job reached that level."""

    __slots__ = ("level", "offers")

    def __init__(self) -> None:
        self.level: int | None = None  # None before the first offer.
        self.offers = 0


class Offers(OfferWait):
    """A locality axis in which a level is left after more offers than its threshold times the number of nodes.

    `locality_threshold_node`, `locality_threshold_rack`: the thresholds of the levels node and rack, from 0 to 1. If
    one of them is negative, jobs never wait.
    """

    counts_full_nodes = True

    def __init__(self, *, locality_threshold_node: float = -1, locality_threshold_rack: float = -1) -> None:
        super().__init__()
        self._thresholds = {NODE: locality_threshold_node, RACK: locality_threshold_rack}
        self.waits = min(self._thresholds.values()) >= 0
        self._passed: dict[str, Passed] = {}

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
        if passed.level is None:  # The first offer is not compared.
            passed.level = NODE
        elif passed.level != ANY and passed.offers > self._thresholds[passed.level] * self.nodes(view):
            passed.level, passed.offers = RACK if passed.level == NODE else ANY, 0

    def declines(self, view: View, job: JobView, level: int) -> str | None:
        """Return for what place the job still waits, if that level is not allowed yet."""
        passed = self._passed.setdefault(job.job, Passed())
        now = NODE if passed.level is None else passed.level
        if now >= level:
            return None
        place = "local node" if now == NODE else "node in the rack of its data"
        return f"waits for a {place}, {self._thresholds[now] * self.nodes(view):g} offers"

    def took(self, view: View, job: JobView, place: str) -> None:
        """Make the level of a map that is nearer than the job's level its level again."""
        for level in (NODE, RACK):
            if place == NEAR[level]:
                self._passed.setdefault(job.job, Passed()).level = level


def compose(order: Order, locality: OfferWait, admission: Admission) -> NodeOffers | None:
    """Make a policy that offers nodes one by one, if jobs wait."""
    return NodeOffers(order, locality, admission) if locality.waits else None


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
    compose=compose,
    rank=15,
)
