"""The order axis and the preset `yarn-capacity`: YARN's CapacityScheduler, a tree of queues with guarantees.

Source: CapacityScheduler, AbstractLeafQueue and RegularContainerAllocator of Hadoop 3.4.1; the queues and preemption
are in `scheduler.order.queues`. Not modeled: labels, queue mappings, auto-created queues, absolute resources,
priorities of jobs in reservations, asynchronous scheduling, the bias against large containers that are reserved again
and again (`starvation` in shouldAllocOrReserveNewContainer).
Deviation: with the preset, a container must fit the node's vcores, too; YARN's DefaultResourceCalculator looks at
memory only, as `admission=memory` does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from schedbed.scheduler.admission.memory import MemoryContainers
from schedbed.scheduler.hooks import Kill, drop, hook
from schedbed.scheduler.models.amounts import NOTHING, Amount
from schedbed.scheduler.order.queues.guaranteed_queue import (
    FAIR,
    FIFO,
    PRIORITY_UTILIZATION,
    UTILIZATION,
    Calculator,
    CapacityQueue,
    YarnQueueSettings,
)
from schedbed.scheduler.order.queues.ideal_shares import CapacityPreemption, IdealShares, IntraQueuePreemption
from schedbed.scheduler.order.queues.queue_tree import (
    QueuedApp,
    QueueOrder,
    YarnUserSettings,
    check_names,
    root_of,
    started_now,
    user_settings,
)
from schedbed.scheduler.policies.node_offers import NodeOffers
from schedbed.scheduler.policy import Admission, Locality
from schedbed.scheduler.registry.declarations import Axis
from schedbed.scheduler.registry.parameters import (
    PolicyParameter,
    at_least_one,
    by_name,
    choice,
    count,
    group,
    maybe_count,
    multiple,
    number,
    one_of,
    or_minus_one,
    percent,
    positive,
    share,
    size,
    switch,
)
from schedbed.scheduler.view import JobView, NodeView, StageView, View
from schedbed.tasks.units import parse_duration


class CapacityQueues(QueueOrder):
    """The order axis of a composed policy: the tree of queues of YARN's CapacityScheduler.

    `queues`: the declared queues below the root, or the root alone with those in it. `users`: settings by user.
    `minimum_allocation_bytes`: the smallest container, to which limits of users are rounded up. A heartbeat of a node
    starts containers until `maximum_offswitch_assignments` of them have no input near, these included that have no
    input at all. The other arguments are the defaults of all queues; times in s.
    """

    counts_reserved = True

    def __init__(
        self,
        *,
        queues: Mapping[str, YarnQueueSettings] | None = None,
        users: Mapping[str, YarnUserSettings] | None = None,
        user_limit_factor: float = 1.0,
        minimum_user_limit_percent: float = 100.0,
        maximum_capacity: float = 100.0,
        max_parallel_apps: int | None = None,
        maximum_am_resource_percent: float = 0.1,
        ordering_policy: str = UTILIZATION,
        resource_calculator: str = "default",
        minimum_allocation_bytes: int = 1 << 30,
        maximum_offswitch_assignments: int = 1,
        preemption: CapacityPreemption | None = None,
        intra_queue_preemption: IntraQueuePreemption | None = None,
    ) -> None:
        defaults = YarnQueueSettings(
            maximum_capacity=maximum_capacity,
            user_limit_factor=user_limit_factor,
            minimum_user_limit_percent=minimum_user_limit_percent,
            ordering_policy=ordering_policy,
            max_parallel_apps=max_parallel_apps,
            maximum_am_resource_percent=maximum_am_resource_percent,
        )
        self.calculator = Calculator(
            Amount(minimum_allocation_bytes, 1), dominant=resource_calculator == "dominant"
        )
        root = root_of(queues or {}, YarnQueueSettings)
        super().__init__(CapacityQueue("root", root, defaults, self.calculator), users)
        self._most_off_switch = maximum_offswitch_assignments
        if preemption is None:
            drop(self, "preempt")
        self._ideal = IdealShares(self.calculator, preemption or CapacityPreemption(), intra_queue_preemption)
        # Whether a user is over the limit of a queue, by queue and user, during a call of `jobs`.
        self._over: dict[tuple[str, str], bool] = {}

    @property
    def closed_queues(self) -> tuple[str, ...]:
        """Return the queues that may be named if they have the whole cluster, by path and by name alone."""
        if not self.root.closed:
            return ()
        leaves = [leaf.name for leaf in self.root.leaves()]
        return tuple(dict.fromkeys([*leaves, *(leaf.rpartition(".")[2] for leaf in leaves)]))

    @property
    def guarantees(self) -> dict[str, float]:
        """Return the share of the cluster that each declared leaf is promised, by path and by name alone."""
        found = {leaf.name: leaf.promised for leaf in self.root.leaves()}
        return {name.rpartition(".")[2]: share for name, share in found.items()} | found

    def finished(self, view: View, job: JobView) -> None:
        """Implement `Hooks.finished`: also forget which containers were chosen."""
        super().finished(view, job)
        self._ideal.forget(job.job)

    def cluster(self, view: View) -> Amount:
        """Return the memory and vcores of the live nodes, which the calculator compares with."""
        self.calculator.cluster = super().cluster(view)
        return self.calculator.cluster

    def continues(self, view: View, node: NodeView) -> bool:
        """Return whether this heartbeat may start another container (CapacityScheduler.canAllocateMore)."""
        self._over = {}
        _, off_switch = started_now(view, node)
        return off_switch < self._most_off_switch

    def declines(self, app: QueuedApp, need: Amount) -> tuple[str, bool] | None:
        """Return which limit of the queue, or of the user, keeps the container from the job.

        A queue's maximum is never exceeded, and ends its turn; a user's limit is exceeded by at most one container
        (canAssignToUser).
        """
        queue, user = app.queue, app.job.user
        full = queue.full_for(need)
        if full is not None:
            return f"queue {full.name} would hold more than its maximum capacity", True
        is_over = self._over.get((queue.name, user))
        if is_over is None:
            limit = self.calculator.of(queue.user_limit(user, queue.asking_users()))
            is_over = self._over[queue.name, user] = self.calculator.of(queue.held_by(user)) > limit
        if is_over:
            return f"user {user} holds more than its limit in queue {queue.name}", False
        return None

    def tries(self, node: NodeView, need: Amount) -> bool:
        """Return whether the smallest container fits, without which a node makes no offer.

        Deviation: containers smaller than that are not rounded up to it, so a node that they fit makes an offer, too.
        """
        free = Amount(node.free_memory_bytes, node.free_vcores)
        return self.calculator.fits(self.calculator.least, free) or self.calculator.fits(need, free)

    def holds_master_back(self, app: QueuedApp, need: Amount) -> tuple[str, bool] | None:
        """Return why the queue's ApplicationMasters hold what they may (LeafQueue.activateApplications).

        One of them may always run. Deviation: there is no limit for each user.
        """
        queue, calculator, held = app.queue, self.calculator, app.queue.masters
        others = self.root.held.plus(queue.held, -1)
        free = calculator.smaller(queue.most_held(), calculator.cluster.plus(others, -1))
        limit = calculator.larger(queue.guaranteed(), free).times(queue.masters_share)
        if held == NOTHING or calculator.fits(held.plus(need), calculator.whole(limit, up=True)):
            return None
        return f"the ApplicationMasters of queue {queue.name} hold their share", False

    def reserves(self, view: View, node: NodeView, job: JobView, stage: StageView, *, local: bool) -> bool:
        """Return whether the node is kept: for any container, while the job has more to start than reserved ones."""
        if stage.demand.memory_bytes > node.spec.memory_bytes:
            return False
        return len(self.reservations.nodes_of(stage)) < stage.unstarted

    def preempt(self, view: View) -> Sequence[Kill]:
        """Implement `Hooks.preempt`: kill containers of queues above their ideal shares."""
        self.cluster(view)
        return self._ideal.kills(view, self.root)


# Parameters


def yarn_queues(doc: str) -> PolicyParameter:
    """Declare the parameter `queues`, for YAML only: queues by name, which may have `queues` of their own."""
    readers = {
        "capacity": percent_or_0,
        "maximum_capacity": percent,
        "user_limit_factor": or_minus_one(positive),
        "minimum_user_limit_percent": percent,
        "user_settings": _weights,
        "ordering_policy": one_of(FIFO, FAIR, UTILIZATION, PRIORITY_UTILIZATION),
        "max_parallel_apps": at_least_one,
        "maximum_am_resource_percent": share,
        "disable_preemption": switch,
        "intra_queue_preemption": switch,
        "priority": count("priority", "0", "").read,
    }
    example = "{prod: {capacity: 70, maximum_capacity: 90}, dev: {capacity: 30}}"
    return by_name("queues", "queue", doc, example, readers, YarnQueueSettings, check_names, nests=True)


def percent_or_0(raw: object) -> float:
    """Parse a percentage from 0 to 100. Raises ValueError for other values."""
    return 0.0 if str(raw) in ("0", "0.0") else percent(raw)


def _weights(raw: object) -> dict[str, float]:
    """Parse {USER: {weight: NUMBER}}. Raises ValueError."""
    if not isinstance(raw, Mapping):
        raise ValueError(f"{raw!r} is not a mapping such as {{ana: {{weight: 2}}}}")
    known: Mapping[Any, Any] = raw
    return {str(user): _weight(user, its) for user, its in known.items()}


def _weight(user: object, raw: object) -> float:
    if not isinstance(raw, Mapping) or set(raw) != {"weight"}:
        raise ValueError(f"user {user}: {raw!r} is not a mapping such as {{weight: 2}}")
    its: Mapping[Any, Any] = raw
    return positive(its["weight"])


_PREEMPTION = {
    "monitoring_interval": parse_duration,
    "max_wait_before_kill": parse_duration,
    "total_preemption_per_round": share,
    "natural_termination_factor": share,
    "max_ignored_over_capacity": multiple,
}
_INSIDE = {
    "enabled": switch,
    "max_allowable_limit": share,
    "minimum_threshold": share,
    "preemption_order_policy": one_of("userlimit_first"),
}


def _check(order: CapacityQueues, locality: Locality, admission: Admission) -> None:
    for name, total in order.root.declared_sum():
        if total > 100 + 1e-9:
            raise ValueError(f"queue {name}: capacities add up to {total:g}, expected at most 100")
    if hook(order, "preempt") and admission.limits.slots:
        raise ValueError("preemption needs admission=memory or admission=containers")
    if order.calculator.dominant and isinstance(admission, MemoryContainers):
        admission.count_vcores()
    order.connect(admission)


_PAPER = "Hadoop 3.4.1, CapacityScheduler"
AXIS = Axis(
    axis="order",
    name="yarn-capacity",
    factory=CapacityQueues,
    summary="a tree of queues with guaranteed shares of memory, limits of users among those that ask, and preemption",
    paper=_PAPER,
    admission="containers",
    parameters=(
        yarn_queues(
            "settings by queue name, as in capacity-scheduler.xml: capacity and maximum_capacity (% of the parent), "
            "user_limit_factor (-1: no limit), minimum_user_limit_percent, user_settings such as {ana: {weight: 2}}, "
            "ordering_policy (of jobs: fifo, fair; of child queues: utilization, priority-utilization), "
            "max_parallel_apps, maximum_am_resource_percent, priority, disable_preemption, intra_queue_preemption, and "
            "queues (child queues). A job's queue is a path such as prod.etl. Queues without a capacity share what the "
            "others leave"
        ),
        user_settings(
            "max_parallel_apps",
            "settings by user name: max_parallel_apps, the jobs of the user that may run at a time",
        ),
        number(
            "user_limit_factor",
            "1",
            "",
            "largest multiple of a queue's guarantee that one user may hold, in queues that set none; -1 for no limit",
            or_minus_one(positive),
        ),
        number(
            "minimum_user_limit_percent",
            "100",
            "%",
            "part of a queue that each user may hold however many users ask, in queues that set none",
            percent,
        ),
        number(
            "maximum_capacity", "100", "%", "the most that a queue holds, in queues that set none", percent
        ),
        maybe_count("max_parallel_apps", "the most running jobs of each queue that sets none"),
        number(
            "maximum_am_resource_percent",
            "0.1",
            "",
            "part of a queue that ApplicationMasters may hold, from 0 to 1, in queues that set none; one may always "
            "run (yarn.scheduler.capacity.maximum-am-resource-percent)",
            share,
        ),
        choice(
            "ordering_policy",
            (UTILIZATION, PRIORITY_UTILIZATION),
            "order of child queues where none is set: utilization (the used part of the guarantee), or "
            "priority-utilization (among queues below their guarantees, and among those above, by priority)",
        ),
        choice(
            "resource_calculator",
            ("default", "dominant"),
            "default compares memory only, dominant the larger share of memory and vcores (resource-calculator)",
        ),
        size(
            "minimum_allocation",
            "1GiB",
            "smallest container, to which limits of users are rounded up (yarn.scheduler.minimum-allocation-mb)",
        ),
        count(
            "maximum_offswitch_assignments",
            "1",
            "containers without input in the node's rack that one heartbeat starts, among them all without input "
            "(per-node-heartbeat.maximum-offswitch-assignments)",
            "containers",
            least=1,
        ),
        group(
            "preemption",
            "off, on, or settings: monitoring_interval (3s), max_wait_before_kill (15s), total_preemption_per_round "
            "(0.1 of the cluster), natural_termination_factor (0.2), max_ignored_over_capacity (0.1). With it, "
            "queues below their guarantees get containers that others hold beyond theirs",
            _PREEMPTION,
            CapacityPreemption,
            ("monitoring_interval", "max_wait_before_kill"),
        ),
        group(
            "intra_queue_preemption",
            "with preemption, also among the jobs of a queue, by the limits of users: off, on, or settings: enabled, "
            "max_allowable_limit (0.2 of the queue a round), minimum_threshold (used part of the guarantee, 0.5)",
            _INSIDE,
            IntraQueuePreemption,
        ),
    ),
    check=_check,
    compose=NodeOffers,
    rank=26,
)
POLICY = AXIS.named(
    summary="YARN's CapacityScheduler: a tree of queues with guaranteed shares of memory and limits of users; jobs "
    "miss offers of nodes without their data.",
    locality="yarn-capacity-wait",
    rank=28,
)
