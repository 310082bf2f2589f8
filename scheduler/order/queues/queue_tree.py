"""A tree of queues, as YARN's schedulers have it, and what their two orders share: limits, usage and reservations.

Source: FSQueue, ParentQueue, MaxRunningAppsEnforcer and CSMaxRunningAppsEnforcer of Hadoop 3.4.1. Usage is an amount of
memory and vcores, not a number of tasks. Deviations: demand and usage are those of the moment; a job in a queue that
has child queues competes with these, where YARN refuses it. A heartbeat's maps are chosen before its reduces, unless
the first application in order asks for reduces only; these end the turn of the maps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from schedbed.scheduler.models.amounts import NOTHING, UNLIMITED, Amount, amount_of
from schedbed.scheduler.models.reservations import Reservations
from schedbed.scheduler.order.fifo import fifo_key
from schedbed.scheduler.policy import Admission
from schedbed.scheduler.registry.parameters import at_least_one, by_name
from schedbed.scheduler.view import AttemptView, JobView, NodeView, StageView, View
from schedbed.tasks.specs import TaskKind

Refuses = Callable[[NodeView, JobView, TaskKind], str | None]


def capacity_of(view: View) -> Amount:
    """Return the memory and vcores of all live nodes."""
    alive = [node.spec for node in view.nodes.values() if node.alive]
    return Amount(sum(spec.memory_bytes for spec in alive), sum(spec.cores for spec in alive))


class Schedulable:
    """A member of a queue, which the queue sorts: an application or a child queue.

    `held`: the amount of the containers now. `tie`: decides between equal members: queues by name, applications by
    submission. `fifo`: the key under the policy fifo. `share`: its fair share, where the scheduler has fair shares.
    """

    weight = 1.0
    least = NOTHING
    held = NOTHING
    share = NOTHING
    tie: tuple[Any, ...]
    fifo: tuple[Any, ...]

    def demand(self) -> Amount:
        """Return the amount held and asked for."""
        raise NotImplementedError


class QueuedApp(Schedulable):
    """A job. `runs`: no limit of running applications holds it back. `asks`: a container of it could start."""

    def __init__(self, job: JobView, queue: Any) -> None:
        self.job, self.queue = job, queue
        self.tie = (1, job.submit_s, job.serial, "")
        self.fifo = (1, *fifo_key(job))
        self.runs = self.asks = False
        self.master = NOTHING

    def pending(self) -> Amount:
        """Return the amount asked for."""
        wanted = NOTHING
        for stage in self.job.stages:
            wanted = wanted.plus(amount_of(stage.demand), stage.unstarted if is_asked(self.job, stage) else 0)
        return wanted

    def demand(self) -> Amount:
        """Return the amount held and asked for."""
        return self.held.plus(self.pending())

    def hold(self, held: Amount, master: Amount) -> None:
        """Change what the job holds, here and in the queues above it, and what of it is its ApplicationMaster."""
        self.queue.masters = self.queue.masters.plus(master).plus(self.master, -1)
        self.master = master
        change = held.plus(self.held, -1)
        self.held = held
        if change != NOTHING:
            for queue in self.queue.path():
                queue.held = queue.held.plus(change)

    def ask(self, asks: bool) -> None:
        """Set whether the job asks for containers. It is offered nodes only if it also may run."""
        if asks != self.asks:
            self.asks = asks
            for queue in self.queue.path():
                queue.asking += 1 if asks else -1


class TreeQueue(Schedulable):
    """A queue with its child queues and the jobs in it that may run.

    `most`: what it may hold. `most_apps`: the jobs in it that may run. `asking`, `running`: the numbers of jobs that
    ask for containers, and that may run, in the queue and below it. `masters`: what the ApplicationMasters of the jobs
    in it hold.
    """

    most = UNLIMITED
    most_apps: int | None = None

    def __init__(self, name: str, parent: Any = None) -> None:
        self.name, self.parent = name, parent
        self.tie = (0, 0.0, 0, name)
        self.fifo = (0, name)
        self.asking = self.running = 0
        self.masters = NOTHING
        self.apps: dict[str, QueuedApp] = {}
        self.children: dict[str, Any] = {}

    def child(self, name: str) -> Any:
        """Make a child queue that the settings do not name."""
        raise NotImplementedError

    def sorted(self, members: list[Any], cluster: Amount) -> list[Any]:
        """Return the members in the order in which they are offered a node."""
        raise NotImplementedError

    def path_of(self, child: str) -> str:
        """Return the full name of a child queue."""
        return child if self.parent is None else f"{self.name}.{child}"

    def find(self, path: str) -> Any:
        """Return the queue below this one, and make the queues that are missing on the way."""
        queue = self
        for name in path.removeprefix("root.").split("."):
            queue = queue.children.get(name) or queue.child(name)
        return queue

    def path(self) -> Iterator[Any]:
        """Return this queue, its parent and so on, up to the root."""
        queue: TreeQueue | None = self
        while queue is not None:
            yield queue
            queue = queue.parent

    def leaves(self) -> Iterator[Any]:
        """Return the queues without child queues, from this one down."""
        if not self.children:
            yield self
        for child in self.children.values():
            yield from child.leaves()

    def full_for(self, more: Amount) -> Any:
        """Return a queue of the path that would hold more than it may with `more` (fitsInMaxShare), or None."""
        return next((queue for queue in self.path() if not queue.held.plus(more).fits(queue.most)), None)

    def demand(self) -> Amount:
        """Return the amount held and asked for, at most that which the queue may hold (updateDemand)."""
        wanted = NOTHING
        for member in (*self.children.values(), *self.apps.values()):
            wanted = wanted.plus(member.demand())
        return Amount(*map(min, wanted, self.most))

    def in_order(self, cluster: Amount) -> Iterator[QueuedApp]:
        """Return the jobs below this queue that ask for containers, in the order in which they are offered a node."""
        members: list[Any] = [each for each in self.children.values() if each.asking]
        members += [app for app in self.apps.values() if app.asks]
        for member in self.sorted(members, cluster):
            if isinstance(member, TreeQueue):
                yield from member.in_order(cluster)
            else:
                yield member


@dataclass(frozen=True, slots=True, kw_only=True)
class YarnUserSettings:
    """The settings of a user: the applications of the user that may hold containers at a time."""

    max_running_apps: int | None = None
    max_parallel_apps: int | None = None


class QueueOrder:
    """An order axis of a composed policy that offers nodes to the jobs in a tree of queues.

    `reservations`: nodes that are kept for a container that did not fit. `counts_reserved`: what is reserved counts as
    held by the queue and the user. `offers_full_nodes`: jobs are tried on full nodes, too, which may be reserved.
    """

    counts_reserved = False
    offers_full_nodes = False

    def __init__(self, root: Any, users: Mapping[str, YarnUserSettings] | None) -> None:
        self.root = root
        self.reservations = Reservations()
        self._most_apps = {
            name: its.max_running_apps or its.max_parallel_apps for name, its in (users or {}).items()
        }
        self._apps: dict[str, QueuedApp] = {}  # Jobs that have not ended or still hold containers.
        self._running = Counter[str]()  # The number of jobs that may run, by user.
        self._cluster = NOTHING
        self._refuses: Refuses = _refuses_none
        self._turn_is_over = False

    def connect(self, admission: Admission) -> None:
        """Use the admission to know whether a job's reduce fits a node."""
        self._refuses = admission.refuses

    # What each scheduler decides in its own way

    def continues(self, view: View, node: NodeView) -> bool:
        """Return whether this heartbeat may start another container."""
        raise NotImplementedError

    def declines(self, app: QueuedApp, need: Amount) -> tuple[str, bool] | None:
        """Return why a limit keeps a container from the job, and whether it keeps them from its whole queue."""
        raise NotImplementedError

    def holds_master_back(self, app: QueuedApp, need: Amount) -> tuple[str, bool] | None:
        """Return why the limit of the queue's ApplicationMasters keeps one from the job, as `declines` does."""
        raise NotImplementedError

    def reserves(self, view: View, node: NodeView, job: JobView, stage: StageView, *, local: bool) -> bool:
        """Return whether to keep the node for the job, a container of which does not fit into its free room."""
        raise NotImplementedError

    def tries(self, node: NodeView, need: Amount) -> bool:
        """Return whether the node makes an offer to a job with containers of that size."""
        return True

    def still_reserves(self, job: JobView, need: Amount) -> bool:
        """Return whether a node remains kept for a container of that size."""
        return True

    # Jobs and what they hold

    def submitted(self, view: View, job: JobView) -> None:
        """Implement `Hooks.submitted`: add the job to its queue, if the limits of running applications allow."""
        app = self._apps[job.job] = QueuedApp(job, self.root.find(job.queue))
        self._run_if_allowed(app)

    def finished(self, view: View, job: JobView) -> None:
        """Implement `Hooks.finished`: remove the job, and let jobs run that waited for its end."""
        app = self._apps[job.job]
        app.ask(False)
        self.reservations.forget(job.job)
        self.count_held(app)
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

    def _run_if_allowed(self, app: QueuedApp) -> None:
        """Let the job run unless its user or a queue of its path has the most that may (canAppBeRunnable)."""
        most = self._most_apps.get(app.job.user)
        if most is not None and self._running[app.job.user] >= most:
            return
        if any(
            queue.most_apps is not None and queue.running >= queue.most_apps for queue in app.queue.path()
        ):
            return
        app.runs = True
        app.queue.apps[app.job.job] = app
        self._count(app, 1)
        app.ask(_asks(app.job))

    def _count(self, app: QueuedApp, change: int) -> None:
        self._running[app.job.user] += change
        for queue in app.queue.path():
            queue.running += change

    def changed(self, view: View, job: JobView, kind: TaskKind) -> None:
        """Implement `Hooks.changed`: update what the job and its queues hold, and whether the job asks for more."""
        app = self._apps.get(job.job)
        if app is None:
            return
        self.reservations.trim(job)
        self.count_held(app)
        app.ask(app.runs and _asks(job))
        if not job.active and app.held == NOTHING:
            del self._apps[job.job]

    def count_held(self, app: QueuedApp) -> None:
        """Add up the containers of the job, with the reserved ones if these count."""
        held = NOTHING
        for stage in app.job.stages:
            kept = len(self.reservations.nodes_of(stage)) if self.counts_reserved else 0
            held = held.plus(amount_of(stage.demand), stage.running + kept)
        master = app.job.master
        app.hold(held, NOTHING if master is None else NOTHING.plus(amount_of(master.demand), master.running))

    def keep(self, node: NodeView, job: JobView, stage: StageView) -> None:
        """Reserve the node for a container of the job."""
        self.reservations.keep(node.node, job, stage)
        self.count_held(self._apps[job.job])

    def release(self, node: NodeView) -> None:
        """End the reservation of the node."""
        kept = self.reservations.release(node.node)
        if kept is not None and (app := self._apps.get(kept.job.job)) is not None:
            self.count_held(app)

    def tick(self, view: View) -> None:
        """Implement `Hooks.tick`: add up the memory and vcores of the live nodes."""
        self._cluster = capacity_of(view)

    def cluster(self, view: View) -> Amount:
        """Return the memory and vcores of the live nodes, as of the last tick."""
        if self._cluster == NOTHING:
            self._cluster = capacity_of(view)
        return self._cluster

    # Order of jobs

    def jobs(self, view: View, node: NodeView, kind: TaskKind) -> Iterator[JobView]:
        """Implement `Order.jobs`: the jobs in the order of the tree, unless the heartbeat has started its share."""
        if not self.continues(view, node):
            return
        full = set[str]()
        # A limit is the same for all jobs of a user in a queue, until a container starts.
        limits: dict[tuple[str, str, Amount, bool], tuple[str, bool] | None] = {}
        for app in self.root.in_order(self.cluster(view)):
            job = app.job
            if app.queue.name in full:
                continue
            stage = self._first_ask(view, node, app, kind)
            if stage is None:
                if self._turn_is_over:
                    return
                continue
            need = amount_of(stage.demand)
            key = (app.queue.name, job.user, need, stage is job.master)
            if key not in limits:
                limits[key] = self.declines(app, need)
                if limits[key] is None and stage is job.master:
                    limits[key] = self.holds_master_back(app, need)
            limit = limits[key]
            if limit is None:
                yield job
                limits.clear()
                continue
            why, ends_queue = limit
            view.skip(node, job, kind, why)
            if ends_queue:
                full.add(app.queue.name)

    def _first_ask(self, view: View, node: NodeView, app: QueuedApp, kind: TaskKind) -> StageView | None:
        """Return what the job asks for: the most urgent, or without ApplicationMasters its tasks of the kind.

        Sets `_turn_is_over` if a job in front asks for a reduce that could start, so that no map may come before it.
        """
        job, self._turn_is_over = app.job, False
        if job.master is not None:
            return next(iter(job.asks()), None)
        stage = job.stage(kind)
        if stage.ready:
            return stage
        self._turn_is_over = kind is TaskKind.MAP and self._takes_reduce(view, node, app)
        return None

    def _takes_reduce(self, view: View, node: NodeView, app: QueuedApp) -> bool:
        """Return whether a reduce of the job could start on the node, so that no other job's map may come first."""
        job, reduces = app.job, app.job.reduces
        return (
            reduces.ready
            and view.fits(node, reduces)
            and not view.avoids(job, node, TaskKind.REDUCE)
            and self._refuses(node, job, TaskKind.REDUCE) is None
            and self.declines(app, amount_of(reduces.demand)) is None
        )


def started_now(view: View, node: NodeView) -> tuple[Amount, int]:
    """Return the amount of the containers that this heartbeat has started, and how many have no input near."""
    given, off_switch = NOTHING, 0
    for attempt in node.attempts.values():
        if attempt.assigned_s == view.now_s:
            given = given.plus(need_of(attempt))
            off_switch += attempt.locality == "off"
    return given, off_switch


def need_of(attempt: AttemptView) -> Amount:
    """Return the amount that an attempt's container takes."""
    return amount_of(attempt.task.stage.demand)


def is_asked(job: JobView, stage: StageView) -> bool:
    """Return whether containers of the stage could start now."""
    return job.active and (stage.ready if job.master is None else stage in job.asks())


def _refuses_none(node: NodeView, job: JobView, kind: TaskKind) -> str | None:
    """Refuse nothing, as an admission."""
    return None


def _asks(job: JobView) -> bool:
    return any(is_asked(job, stage) for stage in job.stages)


def user_settings(name: str, doc: str) -> Any:
    """Declare the parameter `users`, for YAML only: the limit `name` by user."""
    return by_name("users", "user", doc, f"{{ana: {{{name}: 2}}}}", {name: at_least_one}, YarnUserSettings)


def root_of(declared: Mapping[str, Any], make: Callable[..., Any]) -> Any:
    """Return the settings of the root, which `make` builds around the declared queues unless they are its own."""
    return declared["root"] if "root" in declared else make(queues=declared)


def check_names(queues: Mapping[str, Any]) -> None:
    """Raise ValueError if a name of a queue is not one, or the root is declared beside others."""
    if "root" in queues and len(queues) > 1:
        raise ValueError("queue root: the other queues belong in its `queues`")
    for name in queues:
        if not name or "." in name:
            raise ValueError(f"queue {name!r}: a name has no dots, child queues are in `queues`")
