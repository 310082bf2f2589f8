"""The base class of the core's state: attributes, queries that policies call, and common state changes."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from typing import Any

from schedbed.cluster.messages import KillAttempt
from schedbed.scheduler import hooks
from schedbed.scheduler import policy as policies
from schedbed.scheduler.core.entities import MAP, NO_SPLIT, REDUCE, Attempt, EmptyTask, Job, Node, Stage, Task
from schedbed.scheduler.core.rows import (
    DecisionRow,
    Discard,
    Effect,
    Sink,
    attempt_row,
    decision_row,
    make_row,
)
from schedbed.scheduler.core.settings import CoreConfig
from schedbed.scheduler.core.states import (
    KILLING,
    SUCCEEDED,
    TASK_DONE,
    TASK_UNSTARTED,
    AttemptState,
    Tally,
    step,
)
from schedbed.scheduler.policy import together
from schedbed.scheduler.view import JobView, NodeView, StageView
from schedbed.tasks.chance import chance
from schedbed.tasks.specs import Demand, NodeId, TaskKind, task_id

POOL = hooks.Limits(slots=False, memory=True, vcores=True)
"""The limits of nodes under any policy if jobs have ApplicationMasters."""
AVOIDED_MOST = 0.33
"""The share of the nodes from which on a job with an ApplicationMaster avoids none (yarn.app.mapreduce.am.job.
node-blacklisting.ignore-threshold-node-percent, RMContainerRequestor of Hadoop 3.4.1)."""
RECENT = 12
"""Number of decisions other than skips that are kept for the live display."""
STATE = (
    "unsettled",
    "random",
    "now_s",
    "beats",
    "launches",
    "submissions",
    "live_attempts",
    "nodes",
    "jobs",
    "avoiding",
    "ended",
    "used_ids",
    "moved",
    "committing",
    "rack_by_node",
    "users",
    "queues",
    "map_slots",
    "reduce_slots",
    "ready_maps",
    "ready_reduces",
    "asked",
    "effects",
    "recent",
)
"""The attributes that events can change, which are the content of a snapshot."""


class CoreTables:
    """The core's state, the base of `JobTables` and `Ledger`: counters, hooks and effects not taken yet."""

    def __init__(self, config: CoreConfig, policy: policies.Policy, sink: Sink, seed: int) -> None:
        self._master = config.master
        self.pooled = config.master is not None
        self.limits: hooks.Limits = POOL if self.pooled else hooks.hook(policy, "limits") or hooks.Limits()
        self._on_changed: Any = hooks.hook(policy, "changed")
        self._on_submitted: Any = hooks.hook(policy, "submitted")
        self._on_ready: Any = hooks.hook(policy, "stage_ready")
        self.speculation: hooks.Speculation | None = hooks.hook(policy, "speculation")
        self._on_finished: Any = self._hook(policy, "finished")
        self._on_ended: Any = self._hook(policy, "ended")
        self.unsettled: dict[Stage, None] = {}
        self._on_kill: Callable[[NodeId], None] | None = None
        self._sink = sink
        self._writes_ends = True
        self.records_skips = config.records_skips
        self.size_view = config.sizes
        self.sizes = config.sizes.kind
        self._max_attempts = config.max_attempts
        self._slowstart = config.slowstart
        self._node_failures = config.node_failures_to_exclude
        self.seed = seed
        self.random = chance(seed, "policy")
        self.now_s = 0.0
        self.beats = 0
        self.launches = 0
        self.submissions = 0
        self.live_attempts = 0
        self._possible: hooks.Proposal | None = None  # Checked; no event followed.
        self.nodes: dict[NodeId, Node] = {}
        self.jobs: dict[str, Job] = {}
        self.avoiding: dict[Job, None] = {}  # Jobs that avoid a node.
        self.ended: dict[str, Job] = {}  # Recently ended jobs, for the live display.
        self.used_ids: set[str] = set()  # Ids of all jobs ever submitted.
        self.moved: dict[str, tuple[NodeId, ...]] = {}  # Nodes by block, if replicas moved.
        self.committing: dict[str, Task] = {}  # By the committing attempt.
        self.rack_by_node: dict[NodeId, str] = {}
        self.users: dict[tuple[str, TaskKind], Tally] = {}
        self.queues: dict[tuple[str, TaskKind], Tally] = {}
        self.map_slots = 0
        self.reduce_slots = 0
        self.ready_maps = 0  # Number of jobs with a map that could start.
        self.ready_reduces = 0
        # By the size of a container: the number of stages that ask for such, of jobs with masters.
        self.asked = Counter[Demand]()
        self.effects: list[Effect] = []
        self.recent: deque[DecisionRow] = deque(maxlen=RECENT)

    def state(self) -> dict[str, Any]:
        """Return a dictionary of the attributes that events can change, for a snapshot. The values are not copied."""
        held = vars(self)
        return {name: held[name] for name in STATE}

    def restore(self, state: dict[str, Any]) -> None:
        """Set the attributes that the method `state` returned."""
        vars(self).update((name, state[name]) for name in STATE)

    def write_decisions_to(self, sink: Sink) -> None:
        """Write later decisions to `sink`, and no rows of attempts and jobs, which the caller writes."""
        self._sink = sink
        self._writes_ends = False

    def _hook(self, policy: policies.Policy, name: str) -> Any:
        """Return a function that calls a hook of the policy, then of its speculation, or None without any."""
        asked = (hooks.hook(part, name) for part in (policy, self.speculation))
        there = [each for each in asked if each is not None]
        return together(there, answers=False) if there else None

    def slots(self, kind: TaskKind) -> int:
        """Implement `View.slots`: with a pool for all tasks, the vcores of the live nodes count as map slots."""
        if self.pooled:
            return sum(node.spec.cores for node in self.nodes.values() if node.alive) if kind is MAP else 0
        return self.map_slots if kind is MAP else self.reduce_slots

    def avoids(self, job: JobView, node: NodeView, kind: TaskKind) -> bool:
        """Implement `View.avoids`: the node has the strongest reason of the live nodes that could run the task."""
        if node.node not in job.excluded:
            return False
        assert isinstance(job, Job)
        if self.pooled:
            alive = sum(each.alive for each in self.nodes.values())
            if len(job.excluded) >= AVOIDED_MOST * alive:
                return False
        strength, stage = job.avoidance.strength, job.stage(kind)
        here = strength(node.node, kind)
        return here > 0 and any(
            other.alive and strength(other.node, kind) < here and self._could_hold(other, stage)
            for other in self.nodes.values()
        )

    def _avoids_now(self, job: Job) -> None:
        """Keep the set `avoiding` up to date for `job`."""
        if job.excluded and job.active:
            self.avoiding[job] = None
        else:
            self.avoiding.pop(job, None)

    def fits(self, node: NodeView, stage: StageView) -> bool:
        """Implement `View.fits`."""
        return self._lack(node, stage) is None

    def _lack(self, node: NodeView, stage: StageView) -> str | None:
        """Return the resource that the node lacks for a task of the stage, or None."""
        limits, demand = self.limits, stage.demand
        if limits.slots and node.free_slots(stage.kind) <= 0:
            return "no slot is free"
        if limits.memory and demand.memory_bytes > node.free_memory_bytes:
            return f"needs {demand.memory_bytes} bytes, {node.free_memory_bytes} are free"
        if limits.vcores and demand.vcores > node.free_vcores:
            return f"needs {demand.vcores} vcores, {node.free_vcores} are free"
        return None

    def _could_hold(self, node: Node, stage: StageView) -> bool:
        limits, spec = self.limits, node.spec
        return (
            (not limits.slots or spec.slots(stage.kind) > 0)
            and (not limits.memory or stage.demand.memory_bytes <= spec.memory_bytes)
            and (not limits.vcores or stage.demand.vcores <= spec.cores)
        )

    def skip(self, node: NodeView, job: JobView, kind: TaskKind, reason: str) -> None:
        """Implement `View.skip`: write a decision row with the reason why the job declined the node.

        A repeated reason is not written unless a launch came since, or with it: a wait ends at a launch, so
        only then would an analysis need the row.
        """
        if not self.records_skips:
            return
        assert isinstance(job, Job)
        stage = job.maps if kind is MAP else job.reduces
        if stage.said == reason:
            return
        if stage.launched_s != self.now_s:
            stage.said = reason
        row = make_row(DecisionRow, (self.now_s, node.node, job.job, "", stage.label, "skip", reason))
        self._sink.decision(row)

    def reject(self, node: NodeId, task: Task | None, kind: str, reason: str) -> None:
        """Write a decision row for an answer of the policy that cannot be carried out."""
        job, name = (task.stage.job.job, task.task) if task is not None else ("", "")
        row = make_row(DecisionRow, (self.now_s, node, job, name, kind, "reject", reason))
        self._sink.decision(row)
        self.recent.append(row)

    def _decided(self, attempt_node: str, task: Task, answer: str, reason: str) -> None:
        row = decision_row(self.now_s, attempt_node, task, answer, reason)
        self._sink.decision(row)
        self.recent.append(row)

    def _changed(self, stage: Stage) -> None:
        ready = stage.unstarted > 0 and stage.open
        if self.pooled:
            stage, ready = self._changed_ask(stage, ready)
        if ready is not stage.ready:
            stage.ready = ready
            if ready and self._on_ready is not None:
                self._on_ready(stage.job, stage.kind)
            if stage.kind is MAP:
                self.ready_maps += 1 if ready else -1
            else:
                self.ready_reduces += 1 if ready else -1
        if self._on_changed is not None:
            self.unsettled[stage] = None

    def _changed_ask(self, stage: Stage, asks: bool) -> tuple[Stage, bool]:
        """Note whether a stage asks for containers. Return the job's maps, and whether any of its stages asks."""
        if asks is not stage.asks:
            stage.asks = asks
            self.asked[stage.demand] += 1 if asks else -1
            if not self.asked[stage.demand]:
                del self.asked[stage.demand]
        maps = stage.job.maps
        if stage is not maps:
            stage.ready = asks
        return maps, any(each.asks for each in stage.job.stages)

    def has_room(self, node: NodeView) -> bool:
        """Return whether the node has room for any container that a job asks for."""
        memory_bytes, vcores = node.free_memory_bytes, node.free_vcores
        return any(each.memory_bytes <= memory_bytes and each.vcores <= vcores for each in self.asked)

    def settle(self) -> None:
        """Call the policy's hook `changed` for the stages changed since the last call."""
        if self.unsettled:
            unsettled, self.unsettled = self.unsettled, {}
            for stage in unsettled:
                self._on_changed(self, stage.job, stage.kind)

    def watch_kills(self, observer: Callable[[NodeId], None]) -> None:
        """Call `observer` with a node's name at each order to stop an attempt, also repeated ones."""
        self._on_kill = observer

    def kill(self, attempt: Attempt, reason: str) -> None:
        """Order a node to stop an attempt, which keeps its slot until the node reports the end."""
        if self._on_kill is not None:
            self._on_kill(attempt.node.node)
        if attempt.state is KILLING:
            return
        attempt.state = step(attempt.attempt, attempt.state, KILLING)
        attempt.reason = reason
        attempt.killed = attempt.node.sequence
        attempt.node.turn += 1
        stage = attempt.task.stage
        count_killing(stage, 1)
        attempt.node.outbox.append(KillAttempt(attempt=attempt.attempt, reason=reason))
        self._changed(stage)

    def _release(self, attempt: Attempt, state: AttemptState) -> None:
        """Set the attempt's new state, remove the attempt from its task and job, and free its resources."""
        task, node = attempt.task, attempt.node
        stage = task.stage
        job = stage.job
        if attempt.state is KILLING:
            count_killing(stage, -1)
        attempt.state = state  # The attempt is live, and each final state may follow a live state.
        if len(task.attempts) == 1:
            task.attempts = ()
        else:
            task.attempts = tuple(other for other in task.attempts if other is not attempt)
        del job.attempts[attempt.attempt]
        node.free(attempt, stage)
        self.live_attempts -= 1
        stage.running -= 1
        stage.user.running -= 1
        stage.queue.running -= 1
        if stage.kind is REDUCE:
            self._feed_less(node, job)
        if self._on_changed is not None:
            self.unsettled[stage] = None

    @staticmethod
    def _feed_less(node: Node, job: Job) -> None:
        feed = node.feeds.get(job.job)
        if feed is not None:
            feed.reduces -= 1
            if not feed.reduces:
                del node.feeds[job.job]

    def ask(self, stage: Stage, asked: int, meant: int | None = None) -> None:
        """Let policies see `asked` unstarted tasks of a stage; without a master, all that there are if these are more.

        The tasks that the stage does not have are launched last, as empty ones, and so are those beyond `meant`.
        """
        own = stage.unstarted - stage.excess + stage.hidden
        real = min(own, asked if meant is None else min(asked, meant)) if self.pooled else own
        excess, hidden = max(0, asked - real), own - real
        if (excess, hidden) != (stage.excess, stage.hidden):
            count(stage, 0, excess - stage.excess - hidden + stage.hidden)
            stage.excess, stage.hidden = excess, hidden
            self._place_empty(stage)
            self._changed(stage)

    @staticmethod
    def _place_empty(stage: Stage) -> None:
        """Put an empty task into the stage's index when only such are asked for, and drop it when none is."""
        empty = stage.empty
        if empty is not None and empty.state is TASK_UNSTARTED:
            if stage.excess:
                return
            empty.state = TASK_DONE  # The index drops it.
        stage.empty = None
        if stage.excess and stage.excess >= stage.unstarted:
            number = stage.total + stage.empties
            stage.empties += 1
            name = task_id(stage.job.job, stage.kind, number)
            stage.empty = EmptyTask(stage, stage.total - 1, name, NO_SPLIT)
            stage.index.add(stage.empty)

    def _run_again(self, task: Task) -> None:
        stage = task.stage
        task.state = step(task.task, task.state, TASK_UNSTARTED)
        for node in task.failed_on:
            stage.job.avoidance.waits(node, stage.kind)
        if task.failed_on:
            self._avoids_now(stage.job)
        stage.index.add(task)
        if self.pooled and stage is not stage.job.master:
            self._ask_later(stage)
            return
        count(stage, 0, 1)
        self._changed(stage)

    def _ask_later(self, stage: Stage) -> None:
        """Hide a task that is unstarted again until the job's master asks for it, unless it asks for too many maps."""
        if stage.excess and stage.kind is MAP:
            stage.excess -= 1
            self._place_empty(stage)
            return
        stage.hidden += 1
        if stage.empty is not None:  # On top of the task that was added.
            stage.index.add(stage.empty)

    def _commit_ended(self, task: Task, state: AttemptState, reason: str) -> None:
        winner = task.winner
        assert winner is not None
        del self.committing[winner.attempt]
        winner.state = step(winner.attempt, winner.state, state)
        winner.reason = reason
        if state is not SUCCEEDED:
            self.effects.append(Discard(task.stage.job.job, winner.attempt))
        self._record(winner)

    def _record(self, attempt: Attempt) -> None:
        """Write an ended attempt's row, except that of a master, and call the policy's hook `ended`."""
        if self._writes_ends and attempt.task.stage is not attempt.task.stage.job.master:
            self._sink.attempt(attempt_row(attempt))
        if self._on_ended is not None:
            self._on_ended(self, attempt)


def count(stage: Stage, running: int, unstarted: int) -> None:
    """Add to the counters in the stage, its user and its queue."""
    stage.running += running
    stage.unstarted += unstarted
    user, queue = stage.user, stage.queue
    user.running += running
    user.unstarted += unstarted
    queue.running += running
    queue.unstarted += unstarted


def count_killing(stage: Stage, change: int) -> None:
    """Add `change` to the number of attempts being killed, in the stage, its user and its queue."""
    stage.killing += change
    stage.user.killing += change
    stage.queue.killing += change
