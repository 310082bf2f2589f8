"""The order axis and the preset `yarn-fair`: YARN's FairScheduler, a tree of queues that share memory and vcores.

Source: FairScheduler and FSAppAttempt, Hadoop 3.4.1; the queues are in `scheduler.order.queues`. A container must
fit the node's free memory and vcores under every scheduling policy (Resources.fitsIn in FSAppAttempt).
Not modeled: userMaxAppsDefault, size-based weights, continuous scheduling, placement rules, labels, and limits in
percent of the cluster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import ceil
from typing import Any

from schedbed.scheduler.hooks import Kill, drop, hook
from schedbed.scheduler.models.amounts import NOTHING, Amount, amount_of
from schedbed.scheduler.order.queues.queue_tree import (
    QueuedApp,
    QueueOrder,
    YarnUserSettings,
    capacity_of,
    check_names,
    root_of,
    started_now,
    user_settings,
)
from schedbed.scheduler.order.queues.starvation import Starvation
from schedbed.scheduler.order.queues.weighted_queue import DRF, FAIR, FIFO, FairQueue, FairQueueSettings
from schedbed.scheduler.policies.node_offers import NodeOffers
from schedbed.scheduler.policy import Admission, Locality
from schedbed.scheduler.registry.declarations import Axis
from schedbed.scheduler.registry.parameters import (
    PolicyParameter,
    at_least_one,
    by_name,
    choice,
    duration,
    maybe_count,
    multiple,
    number,
    one_of,
    or_minus_one,
    share,
    size,
    switch,
)
from schedbed.scheduler.view import JobView, NodeView, StageView, View
from schedbed.tasks.units import parse_duration, parse_size

RESERVED_MULTIPLE = 2  # yarn.scheduler.reservation-threshold.increment-multiple


class FairQueues(QueueOrder):
    """The order axis of a composed policy: the tree of queues of YARN's FairScheduler.

    `queues`: the declared queues below the root, or the root alone with those in it. `users`: settings by user.
    `assign_multiple`: one heartbeat of a node starts containers until they take more than half of the room that was
    free, or with `dynamic_max_assign` false, as many as fit; otherwise it starts one. `increment_allocation_bytes`: a
    container of at least twice this size may reserve a node that has no room for it now. `reservable_nodes`:
    the share of the nodes on which a job may have reservations. `preemption` and the rest: see `Starvation`. The
    other arguments are the defaults of all queues, the root among them.
    """

    offers_full_nodes = True

    def __init__(
        self,
        *,
        queues: Mapping[str, FairQueueSettings] | None = None,
        users: Mapping[str, YarnUserSettings] | None = None,
        assign_multiple: bool = False,
        dynamic_max_assign: bool = True,
        scheduling_policy: str = FAIR,
        max_resources: Amount | None = None,
        max_child_resources: Amount | None = None,
        max_running_apps: int | None = None,
        increment_allocation_bytes: int = 1 << 30,
        reservable_nodes: float = 0.05,
        max_am_share: float = 0.5,
        preemption: bool = False,
        preemption_cluster_utilization_threshold: float = 0.8,
        wait_time_before_kill_s: float = 15.0,
        fair_share_preemption_threshold: float = 0.5,
        fair_share_preemption_timeout_s: float | None = None,
        min_share_preemption_timeout_s: float | None = None,
    ) -> None:
        defaults = FairQueueSettings(
            scheduling_policy=scheduling_policy,
            max_resources=max_resources,
            max_child_resources=max_child_resources,
            max_running_apps=max_running_apps,
            max_am_share=max_am_share,
            fair_share_preemption_threshold=fair_share_preemption_threshold,
            fair_share_preemption_timeout=fair_share_preemption_timeout_s,
            min_share_preemption_timeout=min_share_preemption_timeout_s,
        )
        root = FairQueue("root", root_of(queues or {}, FairQueueSettings), defaults)
        super().__init__(root, users)
        self._assign_multiple, self._half = assign_multiple, dynamic_max_assign
        self._reserved_from = Amount(RESERVED_MULTIPLE * increment_allocation_bytes, RESERVED_MULTIPLE)
        self._reservable = reservable_nodes
        if not preemption:
            drop(self, "preempt")
        self._starvation = Starvation(
            wait_time_before_kill_s, preemption_cluster_utilization_threshold, self._apps
        )

    def finished(self, view: View, job: JobView) -> None:
        """Implement `Hooks.finished`: also forget how long the job starved."""
        super().finished(view, job)
        self._starvation.forget(job.job)

    def continues(self, view: View, node: NodeView) -> bool:
        """Return whether this heartbeat may start another container (FairScheduler.shouldContinueAssigning).

        With dynamic.max.assign, its default, those started may take half of the free room, rounded down, and the last
        one goes beyond.
        """
        given, _ = started_now(view, node)
        if given == NOTHING or not self._assign_multiple:
            return given == NOTHING
        free = given.plus(Amount(node.free_memory_bytes, node.free_vcores))
        return not self._half or given.fits(Amount(free.memory_bytes // 2, free.vcores // 2))

    def declines(self, app: QueuedApp, need: Amount) -> tuple[str, bool] | None:
        """Return which queue of the path would hold more than its max resources with the container."""
        full = app.queue.full_for(need)
        return (f"queue {full.name} would hold more than its max_resources", False) if full else None

    def holds_master_back(self, app: QueuedApp, need: Amount) -> tuple[str, bool] | None:
        """Return why the queue's share for ApplicationMasters is full (FSLeafQueue.canRunAppAM)."""
        queue = app.queue
        if queue.most_masters < 0:
            return None
        self.root.divide(self._cluster, self._cluster)
        share = queue.share if queue.share != NOTHING else Amount(*map(min, queue.most, self._cluster))
        held = queue.masters.plus(need)
        if queue.compares(held, self._cluster) <= queue.compares(
            share.times(queue.most_masters), self._cluster
        ):
            return None
        return f"the ApplicationMasters of queue {queue.name} would hold more than its max_am_share", False

    def reserves(self, view: View, node: NodeView, job: JobView, stage: StageView, *, local: bool) -> bool:
        """Return whether the node is kept: for a large container of a job below its fair share (isReservable).

        A job has few such nodes, unless they hold its data (reservationExceedsThreshold).
        """
        app, cluster = self._apps[job.job], self.cluster(view)
        need = app.queue.compares(amount_of(stage.demand), cluster)
        if need < app.queue.compares(self._reserved_from, cluster):
            return False
        most = ceil(self._reservable * sum(each.alive for each in view.nodes.values()))
        if not local and len(self.reservations.nodes_of(stage)) >= most:
            return False
        self.root.divide(cluster, cluster)
        return app.queue.compares(app.held, cluster) < app.queue.compares(app.share, cluster)

    def still_reserves(self, job: JobView, need: Amount) -> bool:
        """Return whether no queue would hold more than its max resources with the container (isValidReservation)."""
        return self._apps[job.job].queue.full_for(need) is None

    def preempt(self, view: View) -> Sequence[Kill]:
        """Implement `Hooks.preempt`: kill containers for jobs that starve."""
        return self._starvation.kills(view, self.root, capacity_of(view), self.reservations)


# Parameters


_TIMEOUTS = ("fair_share_preemption_timeout", "min_share_preemption_timeout")


def fair_queues(doc: str) -> PolicyParameter:
    """Declare the parameter `queues`, for YAML only: queues by name, which may have `queues` of their own."""
    readers = {
        "weight": multiple,
        "min_resources": partial(_amount, missing=0.0),
        "max_resources": _amount,
        "max_child_resources": _amount,
        "max_running_apps": at_least_one,
        "max_am_share": or_minus_one(share),
        "scheduling_policy": one_of(FAIR, DRF, FIFO),
        "allow_preemption_from": switch,
        "fair_share_preemption_threshold": share,
        "fair_share_preemption_timeout": parse_duration,
        "min_share_preemption_timeout": parse_duration,
    }
    example = "{prod: {weight: 2, max_resources: {memory: 8GiB}, queues: {etl: {}}}}"
    return by_name(
        "queues", "queue", doc, example, readers, FairQueueSettings, check_names, _TIMEOUTS, nests=True
    )


def _amount(raw: object, missing: float = float("inf")) -> Amount:
    """Parse {memory: SIZE, vcores: NUMBER}, of which one may be missing."""
    if not isinstance(raw, Mapping) or not raw or not set(raw) <= {"memory", "vcores"}:
        raise ValueError(f"{raw!r} is not a mapping such as {{memory: 4GiB, vcores: 2}}")
    known: Mapping[Any, Any] = raw
    memory_bytes = parse_size(known["memory"]) if "memory" in known else missing
    return Amount(memory_bytes, multiple(known["vcores"]) if "vcores" in known else missing)


def _amount_of_all(name: str, doc: str) -> PolicyParameter:
    """Return a parameter that is an amount for each queue, or `off` (None), which is the default."""

    def read(raw: object) -> Amount | None:
        return None if raw is None or raw is False or raw == "off" else _amount(raw)

    return number(name, "off", "", doc, read)


def _check(order: FairQueues, locality: Locality, admission: Admission) -> None:
    order.root.check()
    if hook(order, "preempt") and admission.limits.slots:
        raise ValueError("preemption needs admission=containers")
    order.connect(admission)


_PAPER = "Hadoop 3.4.1, FairScheduler"
AXIS = Axis(
    axis="order",
    name="yarn-fair",
    factory=FairQueues,
    summary="a tree of queues shares memory and vcores by min resources and weight, with limits of queues and users",
    paper=_PAPER,
    admission="containers",
    parameters=(
        fair_queues(
            "settings by queue name, as in the allocation file: weight, min_resources and max_resources such as "
            "{memory: 4GiB, vcores: 2}, max_child_resources (of undeclared child queues), max_running_apps, "
            "max_am_share, scheduling_policy (fair: memory; drf: dominant resource; fifo), allow_preemption_from, "
            "fair_share_preemption_threshold, fair_share_preemption_timeout and min_share_preemption_timeout (these "
            "three also for queues below), and queues (child queues). A job's "
            "queue is a path such as prod.etl. The root is implied, or given as {root: {queues: ...}}"
        ),
        user_settings(
            "max_running_apps",
            "settings by user name: max_running_apps (maxRunningApps of a user), such as {ana: {max_running_apps: 2}}",
        ),
        number(
            "assign_multiple",
            "false",
            "",
            "whether one heartbeat of a node starts several containers, up to half of its free room and one more "
            "(yarn.scheduler.fair.assignmultiple, with dynamic.max.assign); otherwise it starts one",
            switch,
        ),
        number(
            "dynamic_max_assign",
            "true",
            "",
            "with assign_multiple, whether a heartbeat stops at half of the free room "
            "(yarn.scheduler.fair.dynamic.max.assign); otherwise it starts all containers that fit",
            switch,
        ),
        choice(
            "scheduling_policy",
            (FAIR, DRF),
            "the policy of queues that set none (defaultQueueSchedulingPolicy): fair compares memory, drf the "
            "dominant resource",
        ),
        _amount_of_all(
            "max_resources",
            "the most that each queue without a limit of its own holds (queueMaxResourcesDefault)",
        ),
        _amount_of_all(
            "max_child_resources",
            "the most that each undeclared child queue holds, where its parent sets none",
        ),
        maybe_count(
            "max_running_apps",
            "the most running jobs of each queue that sets none, the root among them (queueMaxAppsDefault)",
        ),
        number(
            "max_am_share",
            "0.5",
            "",
            "part of a queue's fair share that ApplicationMasters may hold, in queues that set none "
            "(queueMaxAMShareDefault); -1 for no limit",
            or_minus_one(share),
        ),
        size(
            "increment_allocation",
            "1GiB",
            "memory of which a container needs at least twice as much to be reserved on a node where it does not fit "
            "(yarn.resource-types.memory-mb.increment-allocation)",
        ),
        number(
            "reservable_nodes",
            "0.05",
            "",
            "share of the nodes on which a job may have reservations (yarn.scheduler.fair.reservable-nodes)",
            share,
        ),
        number(
            "preemption",
            "false",
            "",
            "whether containers are killed for jobs that starve (yarn.scheduler.fair.preemption); the timeouts say "
            "when, and without them never",
            switch,
        ),
        number(
            "preemption_cluster_utilization_threshold",
            "0.8",
            "",
            "share of the cluster's memory or vcores in use below which nothing is killed",
            share,
        ),
        duration(
            "wait_time_before_kill",
            "15s",
            "time from the choice of a container to its kill (yarn.scheduler.fair.waitTimeBeforeKill)",
        ),
        number(
            "fair_share_preemption_threshold",
            "0.5",
            "",
            "part of its fair share below which a job starves (defaultFairSharePreemptionThreshold)",
            share,
        ),
        duration(
            "fair_share_preemption_timeout",
            "off",
            "time below that part of the fair share before a job starves (defaultFairSharePreemptionTimeout)",
        ),
        duration(
            "min_share_preemption_timeout",
            "off",
            "time below its min resources before a queue starves (defaultMinSharePreemptionTimeout)",
        ),
    ),
    check=_check,
    compose=NodeOffers,
    rank=25,
)
POLICY = AXIS.named(
    summary="YARN's FairScheduler: a tree of queues shares memory and vcores, and jobs pass up offers of nodes without "
    "their data; large containers are reserved.",
    locality="yarn-fair-wait",
    rank=27,
)
