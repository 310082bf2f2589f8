"""The rules by which the simulator skips heartbeats and ticks that have no effect.

Without reports, orders or room, a heartbeat changes only sequence numbers. It still matters to a policy that
counts heartbeats or reads what they bring (use, progress), so all are simulated unless the policy is
`elidable`. A user's policy is watched instead.
"""

from __future__ import annotations

from operator import methodcaller
from typing import Any, Protocol

from schedbed.scheduler.policies.explained import Explained
from schedbed.scheduler.policy import Composed, HeartbeatWatch, HostedPolicy, Policy, says
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
    """Return whether heartbeats without changes do not matter (`elidable`).

    With speculation they do: copies depend on progress.
    """
    return getattr(policy, "speculation", None) is None and says(policy, "elidable") is True


def reads_progress(policy: Policy) -> bool:
    """Return whether the policy may read the progress of attempts, which heartbeats report.

    It does not if heartbeats may be skipped, or if all its axes are elidable or have a false
    `reads_progress`.
    """
    if is_quiet(policy):
        return False
    axes: tuple[Any, ...] = getattr(policy, "axes", ())
    shipped = type(policy).__module__.startswith("schedbed.") and getattr(policy, "speculation", None) is None
    return not (shipped and axes) or any(
        says(axis, "elidable") is not True and says(axis, "reads_progress") is not False for axis in axes
    )


def watch_of(policy: Policy) -> HeartbeatWatch | None:
    """Watch a user's policy for reads of values from heartbeats; None for a shipped one."""
    return policy.watch_heartbeats() if isinstance(policy, HostedPolicy) else None


def acts_on_ticks(policy: Policy) -> bool:
    """Return the attribute `acts_on_ticks`, by default whether there is a hook `tick` or `preempt`."""
    said: bool | None = getattr(policy, "acts_on_ticks", None)
    return said if said is not None else hasattr(policy, "tick") or hasattr(policy, "preempt")


class Resting(Protocol):
    """A shipped policy or admission that can tell which nodes would receive no task now, and rest.

    The simulator skips their heartbeats even with free slots, since an offer would not write a row. The core
    calls `stage_ready(job, kind)`, if there is one, as soon as tasks may start, before `changed`.
    """

    @property
    def rest_turn(self) -> int:
        """Return a counter that grows when resting nodes may receive a task again."""
        ...

    def rests(self, view: View, node: NodeView) -> bool:
        """Return whether an offer of the node would have no effect.

        This must hold until `rest_turn` grows, the node's attempts change, or the cluster's slots do.
        """
        ...


def resting_of(policy: Policy) -> Resting | None:
    """Return the policy or a composed one's admission, if it can tell which nodes rest.

    Its own class must define `rests`: an inherited one may be wrong for it.
    """
    own: Any = policy
    if type(policy) in (Composed, Explained):
        own = own.admission
    return own if "rests" in vars(type(own)) else None


_awaits_beat = methodcaller("awaits_beat")


class Awaits:
    """The parts of a policy, itself or axes, that may need a heartbeat without changes (`awaits_beat`)."""

    def __init__(self, policy: Policy) -> None:
        parts: tuple[Any, ...] = (policy, *getattr(policy, "axes", ()))
        self._waiting = [part for part in parts if hasattr(part, "awaits_beat")]
        self.ever = bool(self._waiting)

    def needs_heartbeat(self) -> bool:
        return any(map(_awaits_beat, self._waiting))

    def pass_heartbeat(self, view: View, node: NodeView) -> None:
        """Call the hook `beat` of these parts for a skipped heartbeat, at the time of `view`."""
        for part in self._waiting:
            part.beat(view, node)
