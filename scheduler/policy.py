"""The policy interface: what a scheduler is, what it may propose, and the three axes that most are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

from schedbed.scheduler.view import AttemptView, JobView, NodeView, TaskView, View
from schedbed.tasks.specs import TaskKind
from schedbed.tasks.values import value

_MAP = TaskKind.MAP
AVOIDED = "failures on this node"
"""Why a job does not take a node that it avoids."""


class PolicyError(Exception):
    """A policy proposed what cannot be: a bug in the policy, which stops the run."""


class PolicyFailed(PolicyError):
    """A user's policy cannot go on: one line that names the policy's file and line."""


@value
class Proposal:
    """Start this task on the node that was offered; `reason` goes into the decisions table.

    With `split` only that share of the map's bytes is started there, and the rest becomes a task of its own; for
    maps that `JobView.whole_map` gives and `tasks.parts.cut` can cut. `speculative` starts a copy of a task that
    runs elsewhere; the first to finish counts.
    """

    task: TaskView
    reason: str
    split: float | None = None
    speculative: bool = False


class Kill(NamedTuple):
    """Stop this attempt so that others get its slot; its task runs again later."""

    attempt: AttemptView
    reason: str


class Limits(NamedTuple):
    """What the core enforces on a node: typed slots, declared memory, one core a vcore."""

    slots: bool = True
    memory: bool = False
    vcores: bool = False


class Policy(Protocol):
    """Decides, never acts. The core calls `decide` for each kind until it answers None, while tasks of that kind
    could start and (under typed slots) a slot is free.

    The same events must give the same answers: no clock, no I/O, chance only from `view.random`. Beside `decide` a
    policy may have any of the attributes and methods of `Hooks`.
    """

    def decide(self, view: View, node: NodeView, kind: TaskKind) -> Proposal | None:
        """Return the next task of that kind to start on `node`, None when there is none for it now."""
        ...


class Hooks(Protocol):
    """What the core uses of a policy when it is there; what a policy lacks costs nothing.

    `limits` are typed slots where a policy has none. A policy or axis that is `elidable` looks at no usage and no
    progress, and at no heartbeat that brings nothing but those that `awaits_beat` asks for: the simulator need not
    play them. All hooks see the books as they stand after the event; they
    may look, and change only what is the policy's own.
    """

    limits: Limits
    speculation: Speculation
    elidable: bool

    def awaits_beat(self) -> bool:
        """Says whether the next heartbeat, whichever node's, changes what an elidable one keeps."""
        ...

    def submitted(self, view: View, job: JobView) -> None:
        """A job has entered; its tasks are there. Called before any `changed` of it."""
        ...

    def finished(self, view: View, job: JobView) -> None:
        """The job has ended: `job.state` says how. Attempts that are still being killed end later.

        After this the job's tasks are gone, and its counters say nothing any more.
        """
        ...

    def ended(self, view: View, attempt: AttemptView) -> None:
        """An attempt has ended and has its final state, `end_s`, counters and reason; called once for each.

        What writes a file (a reduce, a map of a job without reduces) has succeeded when its output is in place,
        not when its node reports. Called before the task can run again and before the job can end by it.
        """
        ...

    def beat(self, view: View, node: NodeView) -> None:
        """A heartbeat has come in, room or not; called before the offers to that node."""
        ...

    def changed(self, view: View, job: JobView, kind: TaskKind) -> None:
        """The counters or the state of that stage of the job changed; called before the policy is asked next.

        Several changes between two questions are one call.
        """
        ...

    def tick(self, view: View) -> None:
        """Called about every heartbeat interval, whether or not a heartbeat comes in; before `preempt`, and after
        `changed` was told what changed."""
        ...

    def preempt(self, view: View) -> Sequence[Kill]:
        """Attempts to stop now; called on every tick."""
        ...


class Speculation(Protocol):
    """Proposes copies of running tasks for what the policy has left free. It has `tick`, `ended` and `finished` too,
    as in `Hooks`."""

    def copy(self, view: View, node: NodeView, kind: TaskKind) -> Proposal | None:
        """Return a task of that kind to start once more, on `node`; None when there is none for it now."""
        ...

    def ended(self, view: View, attempt: AttemptView) -> None: ...
    def finished(self, view: View, job: JobView) -> None: ...
    def tick(self, view: View) -> None: ...


class Order(Protocol):
    """Axis 1: which job is offered the slot first. Any axis may also have any of the methods of `Hooks`.

    An order that offers other jobs to other nodes has `group_of(view, node)`, a text: nodes with the same text are
    offered the same jobs. A locality that plans for several nodes at once asks for it.
    """

    def jobs(self, view: View, node: NodeView, kind: TaskKind) -> Iterable[JobView]:
        """Return the ready jobs, best first."""
        ...


class Locality(Protocol):
    """Axis 2: whether this job takes this node for a map now.

    It may have `scan(view, node, jobs)`, which does what `Composed.decide` does with the jobs where the admission
    `takes_any`.
    """

    def pick(self, view: View, node: NodeView, job: JobView) -> Proposal | str | None:
        """Return a map to start, or why the job waits; None when it was already asked in this heartbeat."""
        ...


class Admission(Protocol):
    """Axis 3: whether the node has room for one more task of this kind of the job; with `takes_any` it refuses none."""

    limits: Limits

    def room(self, node: NodeView, kind: TaskKind) -> bool:
        """Could anything of that kind start there? Cheap; asked before any job is."""
        ...

    def refuses(self, node: NodeView, job: JobView, kind: TaskKind) -> str | None:
        """Return why a task of that kind of the job cannot start there; None when it can."""
        ...


def says(part: object, name: str) -> Any:
    """Returns what the part says of itself, as `elidable` or `compiled_as`; None when it says nothing.

    What a parent class says is not taken for an answer: a subclass may look at more, or act otherwise.
    """
    return getattr(part, name) if name in vars(type(part)) or name in getattr(part, "__dict__", ()) else None


class Composed:
    """A policy made of an order, a locality and an admission, which know nothing of each other.

    It has the hooks that its axes have, called in this order; one that a subclass defines itself stays as it is.
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
        """Returns the order, the locality and the admission."""
        return (self.order, self.locality, self.admission)

    @property
    def elidable(self) -> bool:
        """Ask the axes."""
        return all(says(axis, "elidable") is True for axis in self.axes)

    @property
    def acts_on_ticks(self) -> bool:
        """Says whether the policy or an axis does anything on a tick; an order with `preempts` false does not."""
        if hasattr(type(self), "tick") or hasattr(type(self), "preempt"):
            return True
        return any(
            hasattr(axis, "tick") or (hasattr(axis, "preempt") and getattr(axis, "preempts", True))
            for axis in self.axes
        )

    def decide(self, view: View, node: NodeView, kind: TaskKind) -> Proposal | None:
        """Offers the room to the jobs in order; the first that takes it has it, the others are recorded."""
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
    """One hook that calls them all, and with `answers` puts what they answer into one list."""
    if len(hooks) == 1:
        return hooks[0]
    return partial(_collect if answers else _call, tuple(hooks))


def _call(hooks: Sequence[Callable[..., Any]], *arguments: Any) -> None:
    for hook in hooks:
        hook(*arguments)


def _collect(hooks: Sequence[Callable[..., Any]], *arguments: Any) -> list[Any]:
    return [answer for hook in hooks for answer in hook(*arguments)]
