"""Which heartbeats and ticks need not be played because nothing could come of them.

A heartbeat of a node that has nothing to report, no order to fetch and nothing to be offered changes the core's
sequence numbers only. It matters to a policy all the same when that looks at what heartbeats bring (usage,
progress) or counts them, so policies are asked for, one by one: whoever is not known here has all of them played.
"""

from __future__ import annotations

from schedbed.scheduler.admission.containers import Containers
from schedbed.scheduler.admission.slots import Slots
from schedbed.scheduler.locality.delay import Delay
from schedbed.scheduler.locality.greedy import Greedy
from schedbed.scheduler.locality.split import Split
from schedbed.scheduler.order.fair import Fair
from schedbed.scheduler.order.fifo import Fifo
from schedbed.scheduler.policies.explained import Explained
from schedbed.scheduler.policy import Composed, Policy
from schedbed.scheduler.view import NodeView, View

QUIET = (Fifo, Fair, Greedy, Delay, Split, Slots, Containers)
"""Axes that look at no usage and no progress, and at heartbeats only as far as `awaits_beat` says."""


def is_quiet(policy: Policy) -> bool:
    """Whether heartbeats that bring nothing mean nothing to the policy; `elidable = True` says so of an own one."""
    if getattr(policy, "speculation", None) is not None:
        return False  # it looks at progress
    if type(policy) in (Composed, Explained):
        assert isinstance(policy, Composed)
        axes = (policy.order, policy.locality, policy.admission)
        return all(type(axis) in QUIET or getattr(axis, "elidable", False) for axis in axes)
    return getattr(policy, "elidable", False) is True


def acts_on_ticks(policy: Policy) -> bool:
    """Whether the policy does anything on a tick."""
    if type(policy) not in (Composed, Explained):
        return hasattr(policy, "tick") or hasattr(policy, "preempt")
    assert isinstance(policy, Composed)
    return any(
        hasattr(axis, "tick") or (hasattr(axis, "preempt") and getattr(axis, "preempts", True))
        for axis in (policy.order, policy.locality, policy.admission)
    )


class Awaits:
    """Whether the next heartbeat, whichever node's, changes what the policy keeps."""

    def __init__(self, policy: Policy) -> None:
        parts = (policy, *(getattr(policy, name, None) for name in ("order", "locality", "admission")))
        self._delays = [part for part in parts if isinstance(part, Delay)]
        self.ever = bool(self._delays)

    def beat(self) -> bool:
        """Now."""
        return any(delay._skipped for delay in self._delays)

    def pass_beat(self, view: View, node: NodeView) -> None:
        """It has come, at the view's time, with nothing else in it."""
        for delay in self._delays:
            delay.beat(view, node)
