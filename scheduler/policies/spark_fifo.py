"""The preset `spark-fifo`, and the scheduler of Spark 3.5.5 that it shares with `spark-fair`.

Source: TaskSchedulerImpl.resourceOffers and TaskSetManager.resourceOffer. The free slots of all nodes are offered
together when a job is submitted, when a task must run again, when a node joins, and each second; those of one node
when a task ends there. A task set takes slots level by level, first the maps that are node-local. A map starts at the
next heartbeat of its node. Reduces have slots of their own here, and start anywhere.
Deviations: task sets are sorted again after each task, and not only for each offer, so a free node is shared by pools
as slots that become free one by one are. Not modeled: the rack-less topology of standalone clusters, spark.task.cpus,
barrier stages, and excluded nodes (schedbed's own rule applies).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from schedbed.scheduler.hooks import QUIET, Limits, Proposal
from schedbed.scheduler.models.locality_timer import ANY, NO_PREFERENCE, NODE, RACK, LocalityTimer
from schedbed.scheduler.models.pool_tree import FAIR, FIFO, SparkPool, SparkPoolSettings
from schedbed.scheduler.models.task_set import TaskSet
from schedbed.scheduler.policy import AVOIDED, next_reduce, place_of
from schedbed.scheduler.registry.declarations import Whole
from schedbed.scheduler.registry.parameters import choice, duration
from schedbed.scheduler.view import JobView, NodeView, TaskView, View
from schedbed.tasks.specs import TaskKind

MAP = TaskKind.MAP
WAITS = {NODE: "waits for a local node", RACK: "waits for a rack-local node"}


class Spark:
    """Spark's task scheduler.

    `pools`: None for FIFO, otherwise the declared pools by name. `pool_by`: whether a job's pool is its queue or its
    user. `wait_s`: spark.locality.wait, at the rack `rack_wait_s` unless None. `reset`: what restarts the wait, full
    or, as before Spark 3.1, launch (legacyResetOnTaskLaunch). `revive_s`: seconds between two offers of all slots.
    """

    limits = Limits(slots=True)
    quiet = QUIET

    def __init__(
        self,
        *,
        pools: Mapping[str, SparkPoolSettings] | None = None,
        pool_by: str = "queue",
        wait_s: float = 3.0,
        rack_wait_s: float | None = None,
        reset: str = "full",
        revive_s: float = 1.0,
    ) -> None:
        at_rack_s = wait_s if rack_wait_s is None else rack_wait_s
        self._waits_s = {NODE: wait_s, NO_PREFERENCE: 0.0, RACK: at_rack_s}
        self._on_launch, self._by_user, self._revive_s = reset == "launch", pool_by == "user", revive_s
        self._root = SparkPool(
            "root", SparkPoolSettings(inside=FIFO if pools is None else FAIR, pools=pools or {})
        )
        self._fair = pools is not None
        self._sets: dict[str, TaskSet] = {}
        self._stages = 0
        self._due = False  # Whether all slots are to be offered at the next heartbeat.
        self._revived = 0  # The number of the last period of `revive_s` in which all slots were offered.
        self._offered: dict[str, int] = {}  # By node, the free slots that an offer has left unused.
        self._planned: dict[str, deque[tuple[TaskView, str]]] = {}  # By node, with reasons.

    def changed(self, view: View, job: JobView, kind: TaskKind) -> None:
        """Implement `Hooks.changed`: offer all slots if the job has maps that were not waiting before."""
        if not job.stage(kind).ready:
            return
        mine = self._sets.get(job.job)
        if mine is None:
            mine = TaskSet(job, self._stages, LocalityTimer(view.now_s, self._waits_s))
            self._sets[job.job] = self._pool(job).members[mine.name] = mine
            self._stages += 2 if job.reduces.total else 1
            self._due = True
        elif kind is MAP and mine.has_more():
            self._due = True

    def finished(self, view: View, job: JobView) -> None:
        """Implement `Hooks.finished`: forget the job."""
        mine = self._sets.pop(job.job, None)
        if mine is not None:
            self._pool(job).members.pop(mine.name, None)
            for name, planned in self._planned.items() if mine.planned else ():
                self._planned[name] = deque(each for each in planned if each[0].job is not job)

    def _pool(self, job: JobView) -> SparkPool:
        """Return the job's pool. A pool that is not declared is FIFO inside (FairSchedulableBuilder)."""
        if not self._fair:
            return self._root
        name = job.user if self._by_user else job.queue
        pool = self._root.find(name)
        if pool is None:
            pool = self._root.members[name] = SparkPool(name, SparkPoolSettings())
        return pool

    # Offers

    def decide(self, view: View, node: NodeView, kind: TaskKind) -> Proposal | None:
        """Implement `Policy.decide`: offer slots if it is time to, then start what is planned for the node."""
        if kind is not MAP:
            return next_reduce(view, node, (mine.job for mine in self._root.sets(kind)))
        if self._free(node) > self._offered.get(node.node, 0) and not self._due:
            self._offer(view, [node], is_all=False)
        # In Spark the phase depends on the driver's start: half a period is the mean.
        period = int(view.now_s / self._revive_s + 0.5)
        if self._due or period > self._revived or node.node not in self._offered:
            self._due, self._revived = False, period
            self._offer_all(view)
        planned = self._planned.get(node.node)
        while planned:
            task, why = planned.popleft()
            mine = self._sets[task.job.job]
            if view.avoids(task.job, node, MAP):
                mine.give_back(task)
                view.skip(node, task.job, MAP, AVOIDED)
                self._due = True
                continue
            mine.planned.pop(task.task, None)
            if task.state == "unstarted":
                return Proposal(task, why)
        if view.records_skips:
            self._tell(view, node)
        return None

    def _free(self, node: NodeView) -> int:
        return node.free_slots(MAP) - len(self._planned.get(node.node, ()))

    def _offer_all(self, view: View) -> None:
        """Offer the free slots of all nodes, in a random order (shuffleOffers)."""
        nodes = {each.node: each for each in view.nodes.values() if each.alive and each.spec.map_slots}
        for name in [name for name in self._planned if name not in nodes]:
            for task, _ in self._planned.pop(name):
                self._sets[task.job.job].give_back(task)
        racks = {node.rack for node in nodes.values()}
        for each in self._sets.values():
            each.find_levels(nodes, racks)
        self._offered = dict.fromkeys(nodes, 0)
        offers = list(nodes.values())
        view.random.shuffle(offers)
        self._offer(view, offers, is_all=True)

    def _offer(self, view: View, offers: list[NodeView], *, is_all: bool) -> None:
        """Plan maps for the free slots of these nodes (resourceOffers)."""
        free = {node.node: self._free(node) for node in offers}
        nearest: dict[str, int] = {}  # By job, the nearest level of the maps that it starts.
        declined: set[str] = set()  # Jobs that have left a slot unused.
        offers = [node for node in offers if free[node.node] > 0]
        while offers and (found := self._offer_slot(view, offers, declined)) is not None:
            mine, node, task, level = found
            free[node.node] -= 1
            offers.remove(node)
            if free[node.node]:
                offers.append(node)  # The others are offered first.
            nearest[mine.job.job] = min(level, nearest.get(mine.job.job, ANY))
            self._planned.setdefault(node.node, deque()).append((task, place_of(node, task)))
        self._offered.update(free)
        if self._on_launch:
            return
        for name in declined:
            self._sets[name].timer.accepts = False
        for name, level in nearest.items():
            if name not in declined and (is_all or self._sets[name].timer.accepts):
                self._sets[name].timer.reset(view.now_s, level)

    def _offer_slot(
        self, view: View, offers: Sequence[NodeView], declined: set[str]
    ) -> tuple[TaskSet, NodeView, TaskView, int] | None:
        """Take a map of the first task set that accepts a node, at the nearest level of all nodes."""
        for mine in self._root.sets(MAP):
            job = mine.job
            if job.job in declined:
                continue
            nodes = [node for node in offers if not (job.excluded and view.avoids(job, node, MAP))]
            for most in mine.levels:
                allowed = most if most == NO_PREFERENCE else min(most, mine.allowed(view.now_s))
                for node in nodes:
                    found = mine.take(node, allowed)
                    if found is not None:
                        task, level = found
                        if self._on_launch and most != NO_PREFERENCE:
                            mine.timer.reset(view.now_s, level)
                        return mine, node, task, level
            if nodes:
                declined.add(job.job)
        return None

    def _tell(self, view: View, node: NodeView) -> None:
        """Record which jobs leave the node's slot unused since they wait for their data."""
        for mine in self._sets.values():
            if mine.waiting(MAP):
                avoids = view.avoids(mine.job, node, MAP)
                why = AVOIDED if avoids else WAITS.get(mine.allowed(view.now_s), "waits for the next offer")
                view.skip(node, mine.job, MAP, why)


PARAMETERS = (
    duration(
        "wait",
        "3s",
        "time that a job waits for a slot on a node with its data, and then for one in its rack "
        "(spark.locality.wait)",
    ),
    duration("rack_wait", "off", "another time for the rack (spark.locality.wait.rack); off for `wait`"),
    choice(
        "reset",
        ("full", "launch"),
        "what restarts the wait: an offer that left no slot unused (Spark since 3.1), or every launch (before)",
    ),
    duration("revive", "1s", "time between two offers of all free slots (spark.scheduler.revive.interval)"),
)


POLICY = Whole(
    name="spark-fifo",
    factory=Spark,
    summary="Spark's FIFO mode: jobs in the order of submission; a job waits for slots near its data.",
    paper="Spark 3.5.5, TaskSchedulerImpl and TaskSetManager",
    parameters=PARAMETERS,
    rank=60,
)
