"""All optional members of policies and axes, in one place: each with its default and who asks it.

A policy needs `decide` alone; an order needs `jobs`, a locality `pick`, an admission `limits`, `room` and `refuses`
(`schedbed.scheduler.policy`). Whatever else the core, a composed policy or the simulator asks is a member of `Hooks`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from schedbed.scheduler.view import AttemptView, JobView, NodeView, TaskView, View
from schedbed.tasks.chance import chance
from schedbed.tasks.specs import TaskKind, value


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

    A user's policy can stop attempts only.

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


class Keeping(NamedTuple):
    """The settings of the rule by which maps keep fetched blocks as replicas.

    `share`: share of the fetching maps that keep their block. `budget`: largest total size of such replicas,
    as a share of the size of all inputs with their replicas.
    """

    share: float
    budget: float

    def asks(self, seed: int, attempt: str) -> bool:
        """Return whether an attempt tries to keep its block: at random, but the same for equal arguments."""
        return self.share >= 1 or chance(seed, "keeps a copy", attempt).random() < self.share


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Quiet:
    """A promise about heartbeats that report no change: they do not affect the answers, so they need no simulation.

    awaits_beat: returns whether the next heartbeat, of any node, counts all the same: the policy waits for time to
        pass. None for never.
    rests: returns whether an offer of this node would have no effect, even if it has free slots. This must hold until
        `turn` grows, the node's attempts change, or the cluster's slots do. Shipped policies only.
    turn: returns a counter that grows when nodes that rest may receive a task again.
    counts: heartbeats do count, each of them, but not what they report, such as progress. Shipped axes only.
    """

    awaits_beat: Callable[[], bool] | None = None
    rests: Callable[[View, NodeView], bool] | None = None
    turn: Callable[[], int] = lambda: 0
    counts: bool = False


QUIET = Quiet()


class Hooks(Protocol):
    """Optional members of a policy or axis. Who lacks a member, or sets it to None, has the default given here.

    The core calls a method after the event that its name describes, with the state after the event in `view`. A
    method may change the policy's own attributes only. A composed policy calls those of its order, its locality and
    its admission, one after the other.
    """

    limits: Limits = Limits()
    """The limits that the core enforces on a node: by default a slot for each task."""
    speculation: Speculation | None = None
    """Proposes copies of running tasks; by default there are none."""
    quiet: Quiet | None = None
    """A promise that a heartbeat without changes does not affect the answers. Subclasses do not inherit it.

    `Quiet` lists what can be promised. Without a promise, the simulator skips such heartbeats of a user's policy
    until it reads a value that each heartbeat can change, and simulates all if it has the hook `beat`.
    """
    keeping: Keeping | None = None
    """For a locality: which maps keep the block that they fetch as a replica. The default is the scenario's setting."""
    patience_s: float = 0.0
    """How long a user's policy may leave a cluster idle, in seconds, before the run ends with an error."""
    keeps_slots: bool = False
    """For an admission: whether the slot of a killed attempt stays with its job, so that kills free no slot."""
    hears_full_nodes: bool = False
    """Under `framework: yarn`: whether the policy is also asked about nodes without room for any container."""
    takes_containers: bool = False
    """For an admission: whether it works with `framework: yarn`, where all containers share a node's room."""

    def submitted(self, view: View, job: JobView) -> None:
        """Handle the submission of a job. By default nothing is done, as in all methods without an answer.

        The job's tasks exist already. The core calls the hook `changed` for this job later.
        """

    def finished(self, view: View, job: JobView) -> None:
        """Handle the end of a job, whose state is succeeded, failed or killed.

        Attempts that are still being killed end later. After this call the job has no tasks, and the job's
        counters have no meaning.
        """

    def ended(self, view: View, attempt: AttemptView) -> None:
        """Handle the end of an attempt, which has its final state, `end_s`, counters and reason.

        The core calls this hook once per attempt, before the task can run again and before the job can end.
        An attempt that writes a file (a reduce, or a map of a job without reduces) succeeds when the file is
        in place, which is later than the node's report.
        """

    def beat(self, view: View, node: NodeView) -> None:
        """Handle a heartbeat of a node, with or without free slots.

        The core calls this hook before it calls `decide` for the node.
        """

    def changed(self, view: View, job: JobView, kind: TaskKind) -> None:
        """Handle a change of the counters or the state of the job's maps or reduces (`kind`).

        The core calls this hook before the next call of `decide`. One call reports all changes since the last
        call.
        """

    def stage_ready(self, job: JobView, kind: TaskKind) -> None:
        """Handle that the first of the job's maps or reduces may start, at once and before `changed`.

        Shipped policies only.
        """

    def tick(self, view: View) -> None:
        """Do periodic work, about once per heartbeat interval, even if no heartbeat arrives.

        The core calls this hook after all pending `changed` calls and before `preempt`.
        """

    def preempt(self, view: View) -> Sequence[Kill]:
        """Return the attempts to stop now, each as a `Kill`; by default none.

        The core calls this hook on every tick. A `Kill` of an attempt that is not live raises PolicyError.
        """
        return ()

    def change(self, given: Mapping[str, Any]) -> bool:
        """Take new values of parameters during the run, as in a scenario file. Return whether one of them is its own.

        What is not given keeps its value. Raises ValueError for values that it cannot have. Shipped policies only.
        """
        return False

    def report(self) -> Mapping[str, Any]:
        """Return JSON values about the policy for `summary.json`, at the run's end; by default none."""
        return {}

    def state(self) -> Any:
        """Return the policy's state as plain values, for a snapshot; by default the JobTracker makes none."""

    def restore(self, view: View, kept: Any) -> None:
        """Set what `state` returned, on a new policy after a restart of the JobTracker."""

    def note(self, view: View, node: NodeView, job: JobView, kind: TaskKind) -> str:
        """Return a text to append to the reason of a launch; by default none. A member of any axis."""
        return ""

    def starves(self, view: View, job: JobView) -> bool:
        """Return whether an order has taken slots back, by kills, for this job; by default not.

        The job's nearest map then starts at once, whatever the locality says, which would let the slots idle.
        """
        return False

    def group_of(self, view: View, node: NodeView) -> str:
        """Return a text that is equal for nodes to which an order offers the same jobs; by default for all.

        Localities that plan for several nodes at once, such as `lsap`, ask.
        """
        return ""

    def avoided(self, view: View, job: JobView) -> None:
        """Handle, in a locality, that the job is not asked, since it avoids the offered node after failures there."""

    def is_still(self, view: View) -> bool:
        """Return whether an admission knows that no job need be asked about the offer; by default all are."""
        return False


def hook(part: object, name: str) -> Any:
    """Return the member `name` of `Hooks` that a policy or axis has, or None.

    An object whose member does nothing with its settings sets it to None (`drop`), and nobody asks it.
    """
    return getattr(part, name, None)


def drop(part: object, *names: str) -> None:
    """Say that these methods of the policy or axis do nothing with its settings."""
    for name in names:
        part.__dict__[name] = None


def own(part: object, name: str) -> Any:
    """Return the member `name` that `part` or its class itself defines, or None.

    A promise of the parent may not hold for a subclass, so those of parent classes are ignored.
    """
    return getattr(part, name) if name in vars(type(part)) or name in getattr(part, "__dict__", ()) else None


def quiet_of(policy: object) -> Quiet | None:
    """Return what the policy promises about heartbeats without changes, or None: it may read what they report.

    Speculation does. A shipped policy without a promise of its own, composed of axes that all promise it, does not.
    """
    if hook(policy, "speculation") is not None:
        return None
    said: Quiet | None = own(policy, "quiet")
    if said is None and type(policy).__module__.startswith("schedbed."):
        said = quiet_together(getattr(policy, "axes", ()))
        return None if said is None else Quiet(counts=True)
    return said


def quiet_together(axes: Sequence[object]) -> Quiet | None:
    """Return the promise of a policy that does no more than its axes, an order, a locality and an admission."""
    said: list[Quiet | None] = [own(axis, "quiet") for axis in axes]
    promises = [each for each in said if each is not None]
    if not promises or len(promises) < len(said):
        return None
    asked = [each.awaits_beat for each in promises if each.awaits_beat is not None]
    return Quiet(
        awaits_beat=(lambda: any(ask() for ask in asked)) if asked else None,
        rests=promises[-1].rests,
        turn=promises[-1].turn,
        counts=any(each.counts for each in promises),
    )


def acts_on_ticks(policy: object) -> bool:
    """Return whether the policy does something on ticks."""
    return hook(policy, "tick") is not None or hook(policy, "preempt") is not None
