"""The rules by which the simulator skips heartbeats and ticks that have no effect.

If a node has nothing to report, no order to receive and no free room for a task, its heartbeat changes only
the core's sequence numbers. Such a heartbeat still matters to a policy that counts heartbeats or that reads
values sent with heartbeats (use of resources, progress). All heartbeats are therefore simulated unless the
policy is `elidable`. A user's policy need not declare this: the simulator watches which values the policy
reads.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import methodcaller
from typing import Any, Protocol

from schedbed.scheduler.policies.explained import Explained
from schedbed.scheduler.policy import Composed, HeartbeatWatch, Policy, says
from schedbed.scheduler.view import NodeView, View

# Wake-ups and skipped heartbeats
#
# A node of a large cluster sends a heartbeat every few seconds, and nearly all of them find nothing to do.
# Simulating each one would cost more than everything else together. A heartbeat may be left out if nobody
# could tell: it reports nothing new, the node receives no action, and the policy would launch nothing. The
# third condition is the hard one, since a policy may decide by anything that it can read.
#
# So the question is turned around: which events could change the answer? These are the events of the core
# (a task became ready, an attempt ended, a job was submitted, a block moved), the passing of time for
# policies that wait, and the values that heartbeats themselves carry. The core reports the first as
# wake-ups: a node that rests is woken and sends its next heartbeat at the time at which it would have sent
# it anyway, on its own grid of times, so that nothing shifts. A policy that waits for time says so
# (`awaits_beat`, `acts_on_ticks`). For the third, a user's policy is watched: the first read of such a
# value raises HeartbeatRead, and the simulation starts again with every heartbeat. The rows of a run are
# the same bytes either way, which tests/search checks with generated runs.


def is_quiet(policy: Policy) -> bool:
    """Return whether heartbeats that report no change have no effect on the policy's answers.

    The policy's attribute `elidable` decides. The result is false for a policy with speculation, since that
    policy launches copies of attempts depending on their progress.
    """
    return getattr(policy, "speculation", None) is None and says(policy, "elidable") is True


def reads_progress(policy: Policy) -> bool:
    """Return whether the policy may read the progress of attempts that run, which heartbeats then report.

    A policy for which heartbeats may be skipped does not. The others do unless they are composed of axes that
    allow the simulator to skip heartbeats or have a false attribute `reads_progress`.
    """
    if is_quiet(policy):
        return False
    axes: tuple[Any, ...] = getattr(policy, "axes", ())
    shipped = type(policy).__module__.startswith("schedbed.") and getattr(policy, "speculation", None) is None
    return not (shipped and axes) or any(
        says(axis, "elidable") is not True and says(axis, "reads_progress") is not False for axis in axes
    )


def watch_of(policy: Policy) -> HeartbeatWatch | None:
    """Start to watch whether a user's policy reads values that heartbeats update, and return the record of
    its reads.

    The result is None for a shipped policy, which is not watched.
    """
    watch_heartbeats: Callable[[], HeartbeatWatch] | None = getattr(policy, "watch_heartbeats", None)
    return None if watch_heartbeats is None else watch_heartbeats()


def acts_on_ticks(policy: Policy) -> bool:
    """Return whether the policy acts on ticks, so that ticks must be simulated.

    The policy's attribute `acts_on_ticks` decides. Without it, a policy with the hook `tick` or `preempt`
    acts on ticks.
    """
    said: bool | None = getattr(policy, "acts_on_ticks", None)
    return said if said is not None else hasattr(policy, "tick") or hasattr(policy, "preempt")


class Resting(Protocol):
    """The interface of a shipped policy or admission that can tell which nodes would receive no task now.

    Such nodes rest: the simulator skips their heartbeats even if they have free slots, since an offer would
    not even write a decision row. The policy increases the counter `rest_turn` when nodes that rest may
    receive a task again. The policy may also have a method `stage_ready(job, kind)`, which the core calls as
    soon as maps or reduces of the job may start. This call comes before that of the hook `changed`.
    """

    @property
    def rest_turn(self) -> int:
        """Return a counter of the times at which nodes that rest might receive a task again."""
        ...

    def rests(self, view: View, node: NodeView) -> bool:
        """Return whether an offer of the node's free slots would have no effect.

        The answer must remain valid until the counter `rest_turn` grows, the node's attempts change, or the
        number of the cluster's slots changes.
        """
        ...


def resting_of(policy: Policy) -> Resting | None:
    """Return the part of the policy that can tell which nodes would receive no task now, or None.

    This is the policy or, for a composed policy, its admission. Its class itself must define the method
    `rests`, since a method inherited from a parent class may be wrong for the subclass.
    """
    own: Any = policy
    if type(policy) in (Composed, Explained):
        own = own.admission
    return own if "rests" in vars(type(own)) else None


_awaits_beat = methodcaller("awaits_beat")


class Awaits:
    """The parts of a policy that may want to see heartbeats even if these report no change.

    A part is the policy itself or one of its axes (order, locality, admission). Such a part has the method
    `awaits_beat`, which returns whether the part needs the next heartbeat.
    """

    def __init__(self, policy: Policy) -> None:
        parts: tuple[Any, ...] = (policy, *getattr(policy, "axes", ()))
        self._waiting = [part for part in parts if hasattr(part, "awaits_beat")]
        self.ever = bool(self._waiting)

    def needs_heartbeat(self) -> bool:
        """Return whether the policy or any of its axes needs the next heartbeat of any node."""
        return any(map(_awaits_beat, self._waiting))

    def pass_heartbeat(self, view: View, node: NodeView) -> None:
        """Call the hook `beat` of each part of the policy that can need heartbeats.

        The call stands for a heartbeat of `node` that was skipped. `view` is the state of the scheduler,
        whose current time is the time of this heartbeat.
        """
        for part in self._waiting:
            part.beat(view, node)
