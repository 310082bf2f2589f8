"""The policy interface: protocols for scheduling policies, their answers, and composition from three axes.

A policy is any object with the method `decide` of `Policy`. It may also have members of
`schedbed.scheduler.hooks.Hooks`. For each free slot of a node that sends a heartbeat, the core calls `decide` and
starts the task of the returned `Proposal`. A policy reads the state of the cluster from its
`schedbed.scheduler.view.View`. All times are seconds since the run's start; all sizes are bytes.

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
from typing import Any, Protocol

from schedbed.scheduler.hooks import (
    Limits,
    Proposal,
    Quiet,
    hook,
    own,
    quiet_together,
)
from schedbed.scheduler.view import JobView, NodeView, StageView, TaskView, View
from schedbed.tasks.specs import TaskKind

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


class Order(Protocol):
    """Axis 1 of a composed policy: the order in which jobs are offered a slot. An axis may also have `Hooks`.

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
    """Axis 2 of a composed policy: the choice of a map for the offered node, or the decision to wait."""

    def pick(self, view: View, node: NodeView, job: JobView) -> Proposal | str | None:
        """Return a proposal to start a map of the job on the node, a reason to start none, or None.

        A reason is a text, which is recorded in the decisions table. With None, no map starts and nothing is
        recorded.
        """
        ...


class Admission(Protocol):
    """Axis 3 of a composed policy: the check that a node has room for another task of a job.

    `limits` are the limits that the core enforces.
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
        self._is_still: Callable[[View], bool] | None = hook(admission, "is_still")
        self._jobs, self._pick = order.jobs, locality.pick
        self._avoided: Callable[[View, JobView], None] | None = hook(locality, "avoided")
        self._starves: Callable[[View, JobView], bool] | None = hook(order, "starves")
        for name in (
            "submitted",
            "finished",
            "ended",
            "beat",
            "changed",
            "tick",
            "preempt",
            "stage_ready",
            "change",
        ):
            asked = (hook(axis, name) for axis in (order, locality, admission))
            hooks = [each for each in asked if each is not None]
            if hooks and not hasattr(type(self), name):
                setattr(self, name, together(hooks, answers=name == "preempt"))

    @property
    def axes(self) -> tuple[Order, Locality, Admission]:
        """Return the order, the locality and the admission."""
        return (self.order, self.locality, self.admission)

    @property
    def quiet(self) -> Quiet | None:
        """Implement `Hooks.quiet`: all three axes must promise it."""
        return quiet_together(self.axes)

    @property
    def takes_containers(self) -> bool:
        """Return whether the policy answers what jobs ask for, be it maps, reduces or ApplicationMasters.

        A subclass with a method `decide` of its own answers with maps and reduces for slots, unless it says otherwise.
        """
        return type(self).decide is Composed.decide and bool(own(self.admission, "takes_containers"))

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
    for each in hooks:
        each(*arguments)


def _collect(hooks: Sequence[Callable[..., Any]], *arguments: Any) -> list[Any]:
    return [answer for hook in hooks for answer in hook(*arguments)]
