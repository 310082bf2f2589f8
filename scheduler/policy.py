"""The policy interface: the protocols that a scheduler implements, its proposals, and composition from three axes.

A policy is any object with the method `decide` of `Policy`. It may also have methods and attributes of `Hooks`. A
policy sees the cluster through `schedbed.scheduler.view.View`. Times are seconds since the run's start, sizes bytes.

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

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

from schedbed.scheduler.view import AttemptView, JobView, NodeView, TaskView, View
from schedbed.tasks.specs import TaskKind
from schedbed.tasks.values import value

_MAP = TaskKind.MAP
AVOIDED = "failures on this node"
"""The reason in the decisions table when a job is skipped on a node that the job avoids."""


class PolicyError(Exception):
    """A bug in a policy, such as a proposal that cannot be carried out. It ends the run."""


class PolicyFailed(PolicyError):
    """A user's policy failed and the run ends. The message is one line that names the policy's file and line."""


@value
class Proposal:
    """An answer of a policy: start `task` on the offered node.

    `task` is an unstarted task of the kind asked for, or a running task if `speculative`. `reason` is a short text for
    the decisions table and `schedbed explain`. `split`, between 0 and 1, is the share of the map's bytes to start; the
    rest becomes a new task. Only maps from `JobView.whole_map` can be split. `speculative` starts a copy of a task
    that runs on another node; the copy that finishes first counts. A proposal that cannot be carried out (task not
    unstarted, node without room) is recorded as `reject` for a user's policy and raises PolicyError for a shipped one.
    """

    task: TaskView
    reason: str
    split: float | None = None
    speculative: bool = False


class Kill(NamedTuple):
    """An answer of `Hooks.preempt`: stop the live `attempt` to free its slot.

    The attempt's work is lost and its task runs again later.
    """

    attempt: AttemptView
    reason: str


class Limits(NamedTuple):
    """The limits that the core enforces on a node when a policy starts tasks.

    `slots`: map and reduce slots. `memory`: the declared memory of all attempts fits on the node. `vcores`: the
    declared vcores of all attempts fit on the node's cores.
    """

    slots: bool = True
    memory: bool = False
    vcores: bool = False


class Policy(Protocol):
    """A scheduling policy. A policy answers questions and never acts; the core carries out the answers.

    On each heartbeat of a node the core calls `decide` for each kind of task until `decide` returns None, while tasks
    of that kind could start and (if `Limits.slots`) a slot is free. The same events must give the same answers: no
    clock, no I/O, randomness only from `view.random`. A policy may also have attributes and methods of `Hooks`.
    """

    def decide(self, view: View, node: NodeView, kind: TaskKind) -> Proposal | None:
        """Return a proposal for the next task of this kind to start on `node`, or None to leave the slot free for now.

        `kind` is TaskKind.MAP or TaskKind.REDUCE. An exception ends the run with the policy's file and line.
        """
        ...


class Hooks(Protocol):
    """Optional attributes and methods of a policy or axis. A hook that is absent costs nothing.

    Each hook is called after its event, with the view as the event left it. A hook may change the policy's own
    attributes only.

    `limits`: what the core enforces on a node; typed slots if absent. `speculation`: an object that proposes copies of
    running tasks. `elidable`: a promise that the policy does not depend on heartbeats that report nothing new, except
    those for which `awaits_beat` returns true; the simulator skips the others. For a policy without
    `beat` the simulator decides this from the values that the policy reads.
    """

    limits: Limits
    speculation: Speculation
    elidable: bool

    def awaits_beat(self) -> bool:
        """Return whether the next heartbeat, of any node, matters to an `elidable` policy even without news.

        A policy that waits for a time to pass returns true while it waits.
        """
        ...

    def submitted(self, view: View, job: JobView) -> None:
        """Handle the submission of a job, whose tasks exist by now. Called before the first `changed` for the job."""
        ...

    def finished(self, view: View, job: JobView) -> None:
        """Handle the end of a job; `job.state` is succeeded, failed or killed.

        Attempts that are still being killed end later. After this call the job's tasks are gone and the job's counters
        are meaningless.
        """
        ...

    def ended(self, view: View, attempt: AttemptView) -> None:
        """Handle the end of an attempt. Called once per attempt, with its final state, `end_s`, counters and reason.

        An attempt that writes a file (a reduce, a map of a job without reduces) succeeds when the file is in place, not
        when the node reports. Called before the task can run again and before the job can end.
        """
        ...

    def beat(self, view: View, node: NodeView) -> None:
        """Handle a heartbeat of a node, with or without free room. Called before `decide` is asked for the node."""
        ...

    def changed(self, view: View, job: JobView, kind: TaskKind) -> None:
        """Handle a change of the counters or the state of the job's stage of this kind.

        Called before the next call of `decide`; several changes in between are reported by one call.
        """
        ...

    def tick(self, view: View) -> None:
        """Do periodic work. Called about once a heartbeat interval even if no heartbeat arrives, after all pending
        `changed` calls and before `preempt`."""
        ...

    def preempt(self, view: View) -> Sequence[Kill]:
        """Return attempts to stop now. Called on every tick; PolicyError if an attempt is not live."""
        ...


class Speculation(Protocol):
    """Proposes copies of slow tasks for slots that the policy leaves free. `ended`, `finished` and `tick` are as in
    `Hooks`."""

    def copy(self, view: View, node: NodeView, kind: TaskKind) -> Proposal | None:
        """Return a proposal with `speculative=True` to copy a running task of this kind to `node`; None for no copy."""
        ...

    def ended(self, view: View, attempt: AttemptView) -> None: ...
    def finished(self, view: View, job: JobView) -> None: ...
    def tick(self, view: View) -> None: ...


class Order(Protocol):
    """Axis 1 of a composed policy: the order in which jobs are offered a slot. An axis may also have hooks (`Hooks`).

    An order that offers different jobs to different nodes also has `group_of(view, node)`. It returns a text that is
    equal for nodes to which the same jobs are offered; a locality that plans for several nodes at once calls it.
    """

    def jobs(self, view: View, node: NodeView, kind: TaskKind) -> Iterable[JobView]:
        """Return the jobs whose stage of this kind is ready, in the order in which they are offered the slot."""
        ...


class Locality(Protocol):
    """Axis 2 of a composed policy: which map of a job runs on the offered node, or why the job waits.

    A locality may also have `scan(view, node, jobs)`, a faster equivalent of the loop in `Composed.decide` over maps.
    It is used only when the admission has `takes_any`.
    """

    def pick(self, view: View, node: NodeView, job: JobView) -> Proposal | str | None:
        """Return a proposal for a map of the job, a text that says why the job waits, or None to record nothing."""
        ...


class Admission(Protocol):
    """Axis 3 of a composed policy: whether the node has room for another task of a job.

    `limits` is what the core enforces. An admission with a true attribute `takes_any` never refuses a job.
    """

    limits: Limits

    def room(self, node: NodeView, kind: TaskKind) -> bool:
        """Return whether any task of this kind could start on the node. Called once before the jobs; must be cheap."""
        ...

    def refuses(self, node: NodeView, job: JobView, kind: TaskKind) -> str | None:
        """Return why a task of this kind of the job cannot start on the node, or None if one can."""
        ...


def says(part: object, name: str) -> Any:
    """Return the attribute `name` (such as `elidable`) of the part's own class or of the part; None if absent.

    Attributes of parent classes are ignored: a promise of the parent need not hold for a subclass.
    """
    return getattr(part, name) if name in vars(type(part)) or name in getattr(part, "__dict__", ()) else None


class Composed:
    """A policy composed of an order, a locality and an admission, which are independent of each other.

    A hook of the composed policy calls the hooks of the three axes in this order. A hook that a subclass defines
    replaces them. `limits` is the admission's.

    Example:

        >>> from schedbed.policy import Composed, shipped_axis
        >>> admission = shipped_axis("admission", "slots")
        >>> locality = shipped_axis("locality", "delay", node_wait_s=5.0)
        >>> policy = Composed(shipped_axis("order", "fifo"), locality, admission)
        >>> policy.limits
        Limits(slots=True, memory=False, vcores=False)
    """

    compiled_as = "composed"

    def __init__(self, order: Order, locality: Locality, admission: Admission) -> None:
        self.order = order
        self.locality = locality
        self.admission = admission
        self.limits = admission.limits
        self._room, self._refuses = admission.room, admission.refuses
        self._jobs, self._pick = order.jobs, locality.pick
        plain = type(self)._offer is Composed._offer and getattr(admission, "takes_any", False)
        self._scan = getattr(locality, "scan", None) if plain else None
        for name in ("submitted", "finished", "ended", "beat", "changed", "tick", "preempt"):
            hooks = [getattr(axis, name) for axis in (order, locality, admission) if hasattr(axis, name)]
            if hooks and not hasattr(type(self), name):
                setattr(self, name, together(hooks, answers=name == "preempt"))

    @property
    def axes(self) -> tuple[Order, Locality, Admission]:
        """Return the order, the locality and the admission."""
        return (self.order, self.locality, self.admission)

    @property
    def elidable(self) -> bool:
        """Return whether all three axes are elidable (see `Hooks`)."""
        return all(says(axis, "elidable") is True for axis in self.axes)

    @property
    def acts_on_ticks(self) -> bool:
        """Return whether the policy or an axis has `tick` or `preempt`; an axis with `preempts` false has none."""
        if hasattr(type(self), "tick") or hasattr(type(self), "preempt"):
            return True
        return any(
            hasattr(axis, "tick") or (hasattr(axis, "preempt") and getattr(axis, "preempts", True))
            for axis in self.axes
        )

    def decide(self, view: View, node: NodeView, kind: TaskKind) -> Proposal | None:
        """Return the proposal of the first job, in order, that takes the node; record the jobs before it as skipped."""
        if not self._room(node, kind):
            return None
        if self._scan is not None and kind is _MAP:
            return self._scan(view, node, self._jobs(view, node, kind))
        for job in self._jobs(view, node, kind):
            answer = self._offer(view, node, job, kind)
            if isinstance(answer, Proposal):
                return answer
            if answer is not None:
                view.skip(node, job, kind, answer)
        return None

    def _offer(self, view: View, node: NodeView, job: JobView, kind: TaskKind) -> Proposal | str | None:
        if job.excluded and view.avoids(job, node, kind):
            return AVOIDED
        refusal = self._refuses(node, job, kind)
        if refusal is not None:
            return refusal
        if kind is _MAP:
            return self._pick(view, node, job)
        task = job.any_reduce()
        return Proposal(task, "reduce") if task is not None else None


def together(hooks: Sequence[Callable[..., Any]], *, answers: bool) -> Callable[..., Any]:
    """Return one hook that calls all hooks in order. With `answers` it returns their results in one list."""
    if len(hooks) == 1:
        return hooks[0]
    return partial(_collect if answers else _call, tuple(hooks))


def _call(hooks: Sequence[Callable[..., Any]], *arguments: Any) -> None:
    for hook in hooks:
        hook(*arguments)


def _collect(hooks: Sequence[Callable[..., Any]], *arguments: Any) -> list[Any]:
    return [answer for hook in hooks for answer in hook(*arguments)]
