"""The policy interface: protocols for scheduling policies, their answers, and composition from three axes.

A policy is any object with the method `decide` of `Policy`. It may also have methods and attributes of
`Hooks`. For each free slot of a node that sends a heartbeat, the core calls `decide` and starts the task of
the returned `Proposal`. A policy reads the state of the cluster from its `schedbed.scheduler.view.View`. All
times are seconds since the run's start; all sizes are bytes.

Example of a policy in a simulated run:

    >>> import schedbed
    >>> from schedbed.policy import Proposal, TaskKind
    >>> class FirstCome:
    ...     def decide(self, view, node, kind):
    ...         for job in view.jobs.values():
    ...             reduce = kind is TaskKind.REDUCE
    ...             task = job.any_reduce() if reduce else job.local_map(node.node) or job.any_map()
    ...             if task is not None:
    ...                 return Proposal(task, "first come")
    ...         return None
    >>> two_maps = {"name": "a", "app": "synthetic", "maps": 2, "map": {"cpu": "10s"}}
    >>> scenario = {"name": "tiny", "cluster": {"nodes": 2}, "workload": {"jobs": [two_maps]}}
    >>> result = schedbed.run(scenario, policies=[FirstCome], machines="sim")
    >>> list(result.attempts["state"])
    ['succeeded', 'succeeded']
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

from schedbed.scheduler.view import AttemptView, JobView, NodeView, StageView, TaskView, View
from schedbed.tasks.specs import TaskKind, value

_MAP = TaskKind.MAP
AVOIDED = "failures on this node"
"""The reason recorded in the decisions table when a job is skipped on a node that the job avoids."""

NO_ROOM = "not enough memory or vcores are free"
UNSAID = ""
"""The answer of an admission that refuses a job without a row in the decisions table, for a reason that the job
has given before."""


class PolicyError(Exception):
    """An error caused by a bug in a policy, such as an impossible proposal. The error ends the run."""


class PolicyFailed(PolicyError):
    """The error that ends a run when a user's policy fails.

    The message contains the policy's file and line.
    """


class HeartbeatRead(BaseException):
    """The exception raised when a policy reads a value that may be outdated because a heartbeat was skipped.

    The simulation then starts again and skips no heartbeats.
    """


class HeartbeatWatch:
    """A record of whether a policy has read a value that each heartbeat can change.

    `read`: the policy has read such a value. `is_over`: the run has ended.
    """

    __slots__ = ("is_over", "read")

    def __init__(self) -> None:
        self.read = False
        self.is_over = False

    def note(self) -> None:
        """Record that the policy reads a value that each heartbeat can change, and raise HeartbeatRead.

        After the end of the run, raise TypeError instead, because a policy must not keep the view's objects.
        """
        if self.is_over:
            raise TypeError("the run has ended: a policy keeps numbers, not the view's objects")
        self.read = True
        raise HeartbeatRead


@value
class Proposal:
    """An answer of `Policy.decide`: start a task on the offered node.

    task: an unstarted task of the requested kind; with `speculative` a running task.
    reason: a short text for the decisions table and for `schedbed explain`.
    split: None starts the whole task. A number between 0 and 1 starts only this share of the map's bytes; the
        remaining bytes become a new task. Only maps returned by `JobView.whole_map` can be split.
    speculative: True starts a copy of a task that runs on another node. The attempt that succeeds first
        counts; the other attempts are killed.

    A proposal that the core cannot carry out, for example because the task has started or the node has no
    room, is recorded as `reject` for a user's policy and raises PolicyError for a shipped policy.
    """

    task: TaskView
    reason: str
    split: float | None = None
    speculative: bool = False


class Kill(NamedTuple):
    """An answer of `Hooks.preempt`: stop an attempt to free its slot. The attempt's task runs again later.

    attempt: an attempt in the state assigned or running. Its work is lost.
    reason: a short text for the decisions table.
    """

    attempt: AttemptView
    reason: str


class TimeOut(NamedTuple):
    """An answer of a shipped policy's `Hooks.preempt`: end a job in the state timeout. Its attempts are stopped.

    Such a policy has a true attribute `ends_jobs`. A user's policy can stop attempts only.

    reason: a short text, recorded with the job and, for each of its live attempts, in the decisions table.
    """

    job: JobView
    reason: str


class Limits(NamedTuple):
    """The limits that the core enforces on a node when a policy starts tasks.

    slots: each task occupies a map slot or a reduce slot of the node.
    memory: the declared memory of all attempts on the node must not exceed the node's memory.
    vcores: the declared vcores of all attempts on the node must not exceed the node's cores.
    """

    slots: bool = True
    memory: bool = False
    vcores: bool = False


class Policy(Protocol):
    """A scheduling policy. A policy only answers questions; the core carries out the answers.

    On each heartbeat of a node, the core calls `decide` repeatedly for each kind of task, until `decide`
    returns None, no task of the kind can start, or (with `Limits.slots`) no slot is free. The same events
    must always give the same answers: a policy must use no clock and no I/O, and take random numbers only
    from `view.random`. A policy may also have the attributes and methods of `Hooks`.
    """

    def decide(self, view: View, node: NodeView, kind: TaskKind) -> Proposal | None:
        """Return a proposal for the next task to start on `node`, or None to leave the slot free for now.

        view: the state of the cluster, valid during this call only.
        node: the node that sent the heartbeat.
        kind: TaskKind.MAP or TaskKind.REDUCE, the kind of task to start.

        An exception ends the run with an error that names the policy's file and line.
        """
        ...


class KeptAnswers(Protocol):
    """Records a user's policy's answers and replays them (`scheduler.guard.guarded_policy`).

    `difference` describes the first replayed answer that differs from the recorded one, or is empty.
    """

    difference: str

    def take(self) -> Any:
        """Return the answers recorded since the last call of this method, or None if the policy gave none."""
        ...

    def replay(self, replies: Any) -> None:
        """Set the recorded answers to use for the next event in a replay."""
        ...


class HostedPolicy(ABC):
    """A user's policy as the core holds it: a `Policy` that guards the user's code (scheduler/guard).

    `relay`, if any, gets each event before the core, for a policy in a process of its own (scheduler/isolated).
    """

    relay: Callable[[float, str, Sequence[Any]], None] | None = None

    @abstractmethod
    def watch_heartbeats(self) -> HeartbeatWatch:
        """Return the record of reads that heartbeats can outdate. Call before the first event."""

    @abstractmethod
    def keep_answers(self) -> KeptAnswers:
        """Return a record of all later answers, for a journal. Call this before the first `decide`."""

    @abstractmethod
    def keep_state(self) -> Any:
        """Return what `restore_state` restores, for a snapshot. Raises an error if the policy keeps no state."""

    @abstractmethod
    def restore_state(self, view: Any, kept: Any) -> None:
        """Restore what `keep_state` returned."""

    @abstractmethod
    def line_of(self, method: str) -> str:
        """Return the file and line of a method of the user's class."""


class Hooks(Protocol):
    """Optional attributes and methods of a policy or axis. The core calls only the hooks that exist.

    The core calls a hook after the event that the hook's name describes, with the state after the event in
    `view`. A hook may change the policy's own attributes only. docs/your-policy.md describes further members:
    `report`, `state`, `restore`, `patience_s`.

    limits: the limits that the core enforces on a node; the default is typed slots.
    speculation: an object that proposes copies of running tasks, see `Speculation`.
    elidable: True promises that heartbeats that report no change have no effect on the policy's answers,
        except while `awaits_beat` returns true. The simulator then skips such heartbeats to save time. If a
        policy has neither this attribute nor the hook `beat`, the simulator watches which values the policy
        reads, and skips heartbeats unless the policy reads a value that each heartbeat can change.
    """

    limits: Limits
    speculation: Speculation
    elidable: bool

    def awaits_beat(self) -> bool:
        """Return whether an `elidable` policy needs the next heartbeat even if nothing has changed.

        A policy that waits until a certain time returns true while it waits. The next heartbeat may come from
        any node.
        """
        ...

    def submitted(self, view: View, job: JobView) -> None:
        """Handle the submission of a job.

        The job's tasks exist already. The core calls the hook `changed` for this job later.
        """
        ...

    def finished(self, view: View, job: JobView) -> None:
        """Handle the end of a job, whose state is succeeded, failed or killed.

        Attempts that are still being killed end later. After this call the job has no tasks, and the job's
        counters have no meaning.
        """
        ...

    def ended(self, view: View, attempt: AttemptView) -> None:
        """Handle the end of an attempt, which has its final state, `end_s`, counters and reason.

        The core calls this hook once per attempt, before the task can run again and before the job can end.
        An attempt that writes a file (a reduce, or a map of a job without reduces) succeeds when the file is
        in place, which is later than the node's report.
        """
        ...

    def beat(self, view: View, node: NodeView) -> None:
        """Handle a heartbeat of a node, with or without free slots.

        The core calls this hook before it calls `decide` for the node.
        """
        ...

    def changed(self, view: View, job: JobView, kind: TaskKind) -> None:
        """Handle a change of the counters or the state of the job's maps or reduces (`kind`).

        The core calls this hook before the next call of `decide`. One call reports all changes since the last
        call.
        """
        ...

    def tick(self, view: View) -> None:
        """Do periodic work, about once per heartbeat interval, even if no heartbeat arrives.

        The core calls this hook after all pending `changed` calls and before `preempt`.
        """
        ...

    def preempt(self, view: View) -> Sequence[Kill]:
        """Return the attempts to stop now, each as a `Kill`.

        The core calls this hook on every tick. A `Kill` of an attempt that is not live raises PolicyError.
        """
        ...


class Speculation(Protocol):
    """An object that proposes copies of slow tasks for the slots that the policy leaves free.

    The core calls the methods `ended`, `finished` and `tick` as it calls those of `Hooks`.
    """

    def copy(self, view: View, node: NodeView, kind: TaskKind) -> Proposal | None:
        """Return a proposal to start a copy of a running task on `node`, with `speculative=True`, or None."""
        ...

    def ended(self, view: View, attempt: AttemptView) -> None: ...
    def finished(self, view: View, job: JobView) -> None: ...
    def tick(self, view: View) -> None: ...


class Order(Protocol):
    """Axis 1 of a composed policy: the order in which jobs are offered a slot. An axis may also have `Hooks`.

    An order that offers different jobs to different nodes also has the method `group_of(view, node)`, which
    returns a string. Nodes with equal strings are offered the same jobs. Locality axes that plan for
    several nodes at once, such as `lsap`, call this method. An order that takes slots back by kills also has the
    method `starves(view, job)`: of a job for which this is true, the nearest map starts at once, whatever the
    locality axis says, since it would let the slots idle that were taken for the job.

    Example of a policy that serves the latest job first:

        >>> import schedbed
        >>> from schedbed.policy import Composed, shipped_axis
        >>> class LatestFirst:
        ...     def jobs(self, view, node, kind):
        ...         return reversed([job for job in view.jobs.values() if job.stage(kind).ready])
        >>> class Latest(Composed):
        ...     def __init__(self):
        ...         greedy, slots = shipped_axis("locality", "greedy"), shipped_axis("admission", "slots")
        ...         super().__init__(LatestFirst(), greedy, slots)
        >>> jobs = [{"name": x, "app": "synthetic", "maps": 4, "map": {"cpu": "10s"}} for x in ("a", "b")]
        >>> scenario = {"name": "tiny", "cluster": {"nodes": 1}, "workload": {"jobs": jobs}}
        >>> result = schedbed.run(scenario, policies=[Latest], machines="sim")
        >>> list(result.jobs.sort_values("finish")["name"])
        ['b', 'a']
    """

    def jobs(self, view: View, node: NodeView, kind: TaskKind) -> Iterable[JobView]:
        """Return the jobs with a ready stage of this kind, in the order in which to offer them the slot."""
        ...


class Locality(Protocol):
    """Axis 2 of a composed policy: the choice of a map for the offered node, or the decision to wait.

    If a locality has the method `avoided(view, job)`, this is called instead of `pick` for a job that avoids the
    offered node because of failures there.
    """

    def pick(self, view: View, node: NodeView, job: JobView) -> Proposal | str | None:
        """Return a proposal to start a map of the job on the node, a reason to start none, or None.

        A reason is a text, which is recorded in the decisions table. With None, no map starts and nothing is
        recorded.
        """
        ...


class Admission(Protocol):
    """Axis 3 of a composed policy: the check that a node has room for another task of a job.

    `limits` are the limits that the core enforces. An admission with a true attribute `keeps_slots` offers the
    slot of a killed attempt to no other job. If an admission has the method `is_still(view)`, the method is
    called once per offer, before the order is asked for jobs; if it returns true, no job is asked.
    """

    limits: Limits

    def room(self, node: NodeView, kind: TaskKind) -> bool:
        """Return whether the node has room for at least some task of this kind.

        The core calls this method once per offer, so it must be cheap.
        """
        ...

    def refuses(self, node: NodeView, job: JobView, kind: TaskKind) -> str | None:
        """Return why the node has no room for a map or reduce (`kind`) of the job, or None if it has room.

        The reason becomes a row of the decisions table unless it is an empty text.
        """
        ...


def says(part: object, name: str) -> Any:
    """Return the attribute `name`, such as `elidable`, that `part` or its class defines, or None if absent.

    `part` is a policy or an axis. Attributes of parent classes are ignored, because a promise of the parent
    may not hold for a subclass.
    """
    return getattr(part, name) if name in vars(type(part)) or name in getattr(part, "__dict__", ()) else None


class Composed:
    """A policy composed of an order, a locality and an admission, which are independent of each other.

    order: chooses the sequence in which jobs are offered a slot.
    locality: chooses the map that a job runs on the offered node.
    admission: checks that the node has room for the task; its `limits` become the policy's limits.

    Each hook of a composed policy calls the hooks of the order, the locality and the admission, one after the
    other. A hook defined in a subclass replaces all three.

    Example:

        >>> from schedbed.policy import Composed, shipped_axis
        >>> admission = shipped_axis("admission", "slots")
        >>> locality = shipped_axis("locality", "delay", node_wait_s=5.0)
        >>> policy = Composed(shipped_axis("order", "fifo"), locality, admission)
        >>> policy.limits
        Limits(slots=True, memory=False, vcores=False)
    """

    def __init__(self, order: Order, locality: Locality, admission: Admission) -> None:
        self.order = order
        self.locality = locality
        self.admission = admission
        self.limits = admission.limits
        self._room, self._refuses = admission.room, admission.refuses
        self._is_still: Callable[[View], bool] | None = getattr(admission, "is_still", None)
        self._jobs, self._pick = order.jobs, locality.pick
        self._avoided: Callable[[View, JobView], None] | None = getattr(locality, "avoided", None)
        starves: Callable[[View, JobView], bool] | None = getattr(order, "starves", None)
        self._starves = starves if getattr(order, "preempts", True) else None
        for name in ("submitted", "finished", "ended", "beat", "changed", "tick", "preempt", "stage_ready"):
            hooks = [getattr(axis, name) for axis in (order, locality, admission) if hasattr(axis, name)]
            if hooks and not hasattr(type(self), name):
                setattr(self, name, together(hooks, answers=name == "preempt"))

    @property
    def axes(self) -> tuple[Order, Locality, Admission]:
        """Return the order, the locality and the admission."""
        return (self.order, self.locality, self.admission)

    @property
    def elidable(self) -> bool:
        """Return whether the simulator may skip heartbeats that report no change.

        All three axes must allow it.
        """
        return all(says(axis, "elidable") is True for axis in self.axes)

    @property
    def acts_on_ticks(self) -> bool:
        """Return whether the policy or one of its axes has the hook `tick` or `preempt`.

        An axis whose attribute `acts_on_ticks` is false does nothing in its hook `tick`, and one whose attribute
        `preempts` is false never returns kills, so these hooks are ignored.
        """
        if hasattr(type(self), "tick") or hasattr(type(self), "preempt"):
            return True
        return any(
            (hasattr(axis, "tick") and getattr(axis, "acts_on_ticks", True))
            or (hasattr(axis, "preempt") and getattr(axis, "preempts", True))
            for axis in self.axes
        )

    @property
    def takes_containers(self) -> bool:
        """Return whether the policy answers what jobs ask for, be it maps, reduces or ApplicationMasters.

        A subclass with a method `decide` of its own answers with maps and reduces for slots, unless it says otherwise.
        An admission has to say so as well, with an attribute of this name.
        """
        return type(self).decide is Composed.decide and bool(says(self.admission, "takes_containers"))

    def decide(self, view: View, node: NodeView, kind: TaskKind) -> Proposal | None:
        """Return the proposal of the first job, in order, that accepts the node, or None if no job does.

        A job that gives a reason to decline the node is recorded as skipped.
        """
        if not self._has_room(view, node, kind):
            return None
        offer = self._offer_container if view.pooled else self._offer
        for job in self._jobs(view, node, kind):
            answer = offer(view, node, job, kind)
            if isinstance(answer, Proposal):
                return answer
            if answer:
                view.skip(node, job, kind, answer)
        return None

    def _offer_container(
        self, view: View, node: NodeView, job: JobView, kind: TaskKind
    ) -> Proposal | str | None:
        """Offer the node to what the job asks for, the most urgent first (`JobView.asks`), until its turn is over."""
        why: str | None = None
        for stage in job.asks():
            answer = self._offer_stage(view, node, job, stage)
            if isinstance(answer, Proposal) or self._turn_is_over(node):
                return answer
            why = why or answer
        return why

    def _offer_stage(
        self, view: View, node: NodeView, job: JobView, stage: StageView
    ) -> Proposal | str | None:
        if not view.fits(node, stage):
            return NO_ROOM
        if stage is job.master:
            return Proposal(stage.tasks[0], "ApplicationMaster")
        return self._offer(view, node, job, stage.kind)

    def _turn_is_over(self, node: NodeView) -> bool:
        """Return whether nothing more is offered to the node, although the job that was asked starts nothing."""
        return False

    def _has_room(self, view: View, node: NodeView, kind: TaskKind) -> bool:
        """Return whether the admission has room for some task on the node, and would start one now."""
        has_room = self._room(node, kind) or (view.pooled and self.limits.slots)
        return has_room and (self._is_still is None or not self._is_still(view))

    def _offer(self, view: View, node: NodeView, job: JobView, kind: TaskKind) -> Proposal | str | None:
        if job.excluded and view.avoids(job, node, kind):
            if kind is _MAP and self._avoided is not None:
                self._avoided(view, job)
            return AVOIDED
        refusal = self._refuses(node, job, kind)
        if refusal is not None:
            return refusal
        if kind is _MAP:
            if self._starves is not None and self._starves(view, job):
                return nearest_map(node, job)
            return self._pick(view, node, job)
        task = job.any_reduce()
        return Proposal(task, "reduce") if task is not None else None


def nearest_map(node: NodeView, job: JobView) -> Proposal | str:
    """Return a proposal for the unstarted map of the job whose input is nearest to the node."""
    task = job.local_map(node.node)
    if task is not None:
        return Proposal(task, "node-local")
    task = job.rack_map(node.rack)
    if task is not None:
        return Proposal(task, "rack-local")
    task = job.any_map()
    if task is None:
        return "no unstarted map"
    return Proposal(task, "off-rack" if task.hosts else "no preferred node")


def place_of(node: NodeView, task: TaskView) -> str:
    """Return where the map's input is, seen from the node."""
    if not task.hosts:
        return "no preferred node"
    if node.node in task.hosts:
        return "node-local"
    return "rack-local" if node.rack in task.racks else "off-rack"


def next_reduce(view: View, node: NodeView, jobs: Iterable[JobView]) -> Proposal | None:
    """Return a proposal for a reduce of the first job that has one and does not avoid the node."""
    for job in jobs:
        task = job.any_reduce()
        if task is None:
            continue
        if not view.avoids(job, node, TaskKind.REDUCE):
            return Proposal(task, "reduce")
        view.skip(node, job, TaskKind.REDUCE, AVOIDED)
    return None


# Calls of the same hook of several parts of a policy.


def together(hooks: Sequence[Callable[..., Any]], *, answers: bool) -> Callable[..., Any]:
    """Return a function that calls all the given functions in order, with the same arguments.

    If `answers` is true, each function must return a list, and the result is the concatenation of these
    lists.
    """
    if len(hooks) == 1:
        return hooks[0]
    return partial(_collect if answers else _call, tuple(hooks))


def _call(hooks: Sequence[Callable[..., Any]], *arguments: Any) -> None:
    for hook in hooks:
        hook(*arguments)


def _collect(hooks: Sequence[Callable[..., Any]], *arguments: Any) -> list[Any]:
    return [answer for hook in hooks for answer in hook(*arguments)]
