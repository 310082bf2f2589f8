"""The order axis and the preset `yarn-fair`: YARN's FairScheduler, a tree of queues that share memory and vcores.

Source: FairScheduler, MaxRunningAppsEnforcer and the classes of `scheduler.order.queue_tree`, Hadoop 3.4.1. A container
must fit the node's free memory and vcores under every scheduling policy (Resources.fitsIn in FSAppAttempt).
Deviations: a heartbeat's maps are chosen before its reduces, unless the first application in order asks for reduces
only; these end the turn of the maps. A job's own maps come before its reduces. Not modeled: preemption, reservations,
ApplicationMasters (maxAMShare), userMaxAppsDefault, size-based weights, continuous scheduling, placement rules, labels,
and limits in percent of the cluster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from schedbed.scheduler.order.queue_tree import (
    DRF,
    FAIR,
    FIFO,
    NOTHING,
    Amount,
    FairApp,
    FairQueue,
    FairQueueSettings,
    amount_of,
)
from schedbed.scheduler.policy import Admission, Locality
from schedbed.scheduler.registry.declarations import Axis, Named
from schedbed.scheduler.registry.parameters import (
    PolicyParameter,
    at_least_one,
    by_name,
    choice,
    maybe_count,
    multiple,
    number,
    one_of,
    switch,
)
from schedbed.scheduler.view import JobView, NodeView, View
from schedbed.tasks.specs import TaskKind
from schedbed.tasks.units import parse_size

Refuses = Callable[[NodeView, JobView, TaskKind], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class YarnUserSettings:
    """The settings of a user: `max_running_apps`, the applications of the user that may hold containers at a time."""

    max_running_apps: int | None = None


class FairQueues:
    """The order axis of a composed policy: the tree of queues of YARN's FairScheduler.

    `queues`: the declared queues below the root, or the root alone with those in it. `users`: settings by user.
    `assign_multiple`: one heartbeat of a node starts containers until they take more than half of the room that was
    free; if false, it starts one. The other arguments are the defaults of all queues, the root among them.
    """

    elidable = False  # The next heartbeat starts tasks that this one may not start.
    reads_progress = False

    def __init__(
        self,
        *,
        queues: Mapping[str, FairQueueSettings] | None = None,
        users: Mapping[str, YarnUserSettings] | None = None,
        assign_multiple: bool = False,
        scheduling_policy: str = FAIR,
        max_resources: Amount | None = None,
        max_child_resources: Amount | None = None,
        max_running_apps: int | None = None,
    ) -> None:
        defaults = FairQueueSettings(
            scheduling_policy=scheduling_policy,
            max_resources=max_resources,
            max_child_resources=max_child_resources,
            max_running_apps=max_running_apps,
        )
        declared = dict(queues or {})
        self.root = FairQueue("root", declared.get("root", FairQueueSettings(queues=declared)), defaults)
        self._users = dict(users or {})
        self._assign_multiple = assign_multiple
        self._apps: dict[str, FairApp] = {}  # Jobs that have not ended or still hold containers.
        self._running = Counter[str]()  # The number of jobs that may run, by user.
        self._cluster = NOTHING
        self._refuses: Refuses = _refuses_none

    @property
    def acts_on_ticks(self) -> bool:
        """Return whether shares of the cluster matter. A queue has drf only if the root has (FairQueue.check)."""
        return self.root.policy == DRF

    def connect(self, admission: Admission) -> None:
        """Use the admission to know whether a job's reduce fits a node."""
        self._refuses = admission.refuses

    # Jobs and what they hold

    def submitted(self, view: View, job: JobView) -> None:
        """Implement `Hooks.submitted`: add the job to its queue, if the limits of running applications allow."""
        app = self._apps[job.job] = FairApp(job, self.root.find(job.queue))
        self._run_if_allowed(app)

    def finished(self, view: View, job: JobView) -> None:
        """Implement `Hooks.finished`: remove the job, and let jobs run that waited for its end."""
        app = self._apps[job.job]
        app.ask(False)
        if app.held == NOTHING:
            del self._apps[job.job]
        if not app.runs:
            return
        app.runs = False
        del app.queue.apps[job.job]
        self._count(app, -1)
        for other in self._apps.values():  # In the order of submission.
            if not other.runs and other.job.active:
                self._run_if_allowed(other)

    def _run_if_allowed(self, app: FairApp) -> None:
        """Let the job run unless its user or a queue of its path has the most that may (canAppBeRunnable)."""
        user = self._users.get(app.job.user, YarnUserSettings())
        limits = [(self._running[app.job.user], user.max_running_apps)]
        limits += [(queue.running, queue.most_apps) for queue in app.queue.path()]
        if all(most is None or running < most for running, most in limits):
            app.runs = True
            app.queue.apps[app.job.job] = app
            self._count(app, 1)
            app.ask(_asks(app.job))

    def _count(self, app: FairApp, change: int) -> None:
        self._running[app.job.user] += change
        for queue in app.queue.path():
            queue.running += change

    def changed(self, view: View, job: JobView, kind: TaskKind) -> None:
        """Implement `Hooks.changed`: update what the job and its queues hold, and whether the job asks for more."""
        app = self._apps.get(job.job)
        if app is None:
            return
        held = NOTHING
        for stage in job.stages:
            held = held.plus(amount_of(stage.demand), stage.running)
        app.hold(held)
        app.ask(app.runs and _asks(job))
        if not job.active and held == NOTHING:
            del self._apps[job.job]

    def tick(self, view: View) -> None:
        """Implement `Hooks.tick`: add up the memory and vcores of the live nodes, of which drf takes shares."""
        self._cluster = _capacity(view)

    # Order of jobs

    def jobs(self, view: View, node: NodeView, kind: TaskKind) -> Iterator[JobView]:
        """Implement `Order.jobs`: the jobs in the order of the tree, unless the heartbeat has started its share."""
        if not self._continues(view, node):
            return
        if self._cluster == NOTHING:
            self._cluster = _capacity(view)
        for app in self.root.in_order(self._cluster):
            job, stage = app.job, app.job.stage(kind)
            if not stage.ready:
                if kind is TaskKind.MAP and self._takes_reduce(view, node, app):
                    return
                continue
            full = app.queue.full_for(amount_of(stage.demand))
            if full is None:
                yield job
            else:
                view.skip(node, job, kind, f"queue {full.name} would hold more than its max_resources")

    def _continues(self, view: View, node: NodeView) -> bool:
        """Return whether this heartbeat may start another container (FairScheduler.shouldContinueAssigning).

        With dynamic.max.assign, its default, those started may take half of the free room, rounded down, and the last
        one goes beyond.
        """
        given = NOTHING
        for attempt in node.attempts.values():
            if attempt.assigned_s == view.now_s:
                given = given.plus(amount_of(attempt.task.job.stage(attempt.task.kind).demand))
        if given == NOTHING or not self._assign_multiple:
            return given == NOTHING
        free = given.plus(Amount(node.free_memory_bytes, node.free_vcores))
        return given.fits(Amount(free.memory_bytes // 2, free.vcores // 2))

    def _takes_reduce(self, view: View, node: NodeView, app: FairApp) -> bool:
        """Return whether a reduce of the job could start on the node, so that no other job's map may come first."""
        job, reduces = app.job, app.job.reduces
        return (
            reduces.ready
            and view.fits(node, reduces)
            and not view.avoids(job, node, TaskKind.REDUCE)
            and self._refuses(node, job, TaskKind.REDUCE) is None
            and app.queue.full_for(amount_of(reduces.demand)) is None
        )


def _refuses_none(node: NodeView, job: JobView, kind: TaskKind) -> str | None:
    """Refuse nothing, as an admission."""
    return None


def _asks(job: JobView) -> bool:
    return job.active and any(job.stage(kind).ready for kind in TaskKind)


def _capacity(view: View) -> Amount:
    alive = [node.spec for node in view.nodes.values() if node.alive]
    return Amount(sum(spec.memory_bytes for spec in alive), sum(spec.cores for spec in alive))


# Parameters


def fair_queues(doc: str) -> PolicyParameter:
    """Declare the parameter `queues`, for YAML only: queues by name, which may have `queues` of their own."""
    readers = {
        "weight": multiple,
        "min_resources": partial(_amount, missing=0.0),
        "max_resources": _amount,
        "max_child_resources": _amount,
        "max_running_apps": at_least_one,
        "scheduling_policy": one_of(FAIR, DRF, FIFO),
    }
    example = "{prod: {weight: 2, max_resources: {memory: 8GiB}, queues: {etl: {}}}}"
    return by_name("queues", "queue", doc, example, readers, FairQueueSettings, _check_names, nests=True)


def _check_names(queues: Mapping[str, FairQueueSettings]) -> None:
    if "root" in queues and len(queues) > 1:
        raise ValueError("queue root: the other queues belong in its `queues`")
    for name in queues:
        if not name or "." in name:
            raise ValueError(f"queue {name!r}: a name has no dots, child queues are in `queues`")


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
    order.connect(admission)


_PAPER = "Hadoop 3.4.1, FairScheduler"
AXIS = Axis(
    axis="order",
    name="yarn-fair",
    factory=FairQueues,
    summary="a tree of queues shares memory and vcores by min resources and weight, with limits of queues and users",
    paper=_PAPER,
    parameters=(
        fair_queues(
            "settings by queue name, as in the allocation file: weight, min_resources and max_resources such as "
            "{memory: 4GiB, vcores: 2}, max_child_resources (of undeclared child queues), max_running_apps, "
            "scheduling_policy (fair: memory; drf: dominant resource; fifo), and queues (child queues). A job's "
            "queue is a path such as prod.etl. The root is implied, or given as {root: {queues: ...}}"
        ),
        by_name(
            "users",
            "user",
            "settings by user name: max_running_apps (maxRunningApps of a user), such as {ana: {max_running_apps: 2}}",
            "{ana: {max_running_apps: 2}}",
            {"max_running_apps": at_least_one},
            YarnUserSettings,
        ),
        number(
            "assign_multiple",
            "false",
            "",
            "whether one heartbeat of a node starts several containers, up to half of its free room and one more "
            "(yarn.scheduler.fair.assignmultiple, with dynamic.max.assign); otherwise it starts one",
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
    ),
    check=_check,
    rank=25,
)
POLICY = Named(
    name="yarn-fair",
    summary="YARN's FairScheduler: a tree of queues shares memory and vcores, and jobs pass up offers of nodes without "
    "their data; no preemption or reservations.",
    paper=_PAPER,
    order="yarn-fair",
    locality="yarn-fair-wait",
    admission="containers",
    rank=27,
)
