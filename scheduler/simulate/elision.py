"""The rules by which the simulator skips heartbeats and ticks that change nothing.

A heartbeat of a node with nothing to report, no order to receive and no free room for a task changes only the
core's sequence numbers. The heartbeat still matters to a policy that reads values which heartbeats bring
(usage, progress) or counts heartbeats. All heartbeats are therefore simulated unless the policy is
`elidable`. A user's policy need not declare this: the simulator watches its reads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from schedbed.scheduler.guard.guarded_calls import BeatWatch
from schedbed.scheduler.policies.explained import Explained
from schedbed.scheduler.policy import Composed, Policy, says
from schedbed.scheduler.view import NodeView, View


def is_quiet(policy: Policy) -> bool:
    """Return whether the policy's answers do not depend on heartbeats without news.

    False for a policy with speculation, since copies depend on progress.
    """
    return getattr(policy, "speculation", None) is None and says(policy, "elidable") is True


def watch_of(policy: Policy) -> BeatWatch | None:
    """Start to watch the values that a user's policy reads, and return the watch; None for a shipped
    policy."""
    watch_beats: Callable[[], BeatWatch] | None = getattr(policy, "watch_beats", None)
    return None if watch_beats is None else watch_beats()


def acts_on_ticks(policy: Policy) -> bool:
    """Return whether the policy acts on ticks.

    The result is the policy's attribute `acts_on_ticks`; without this attribute, whether the policy has
    `tick` or `preempt`.
    """
    said: bool | None = getattr(policy, "acts_on_ticks", None)
    return said if said is not None else hasattr(policy, "tick") or hasattr(policy, "preempt")


class Resting(Protocol):
    """The interface of a shipped policy or admission that can tell which nodes would get no task for now.

    Such nodes rest: the simulator skips their heartbeats even if they have free slots, since an offer would
    have no effect, not even a decision row. `rest_turn` is a counter that grows when a resting node may get a
    task without having reported anything. A policy may also have `stage_ready(job, kind)`, which is called as
    soon as tasks may start; `changed` is called later.
    """

    rest_turn: int

    def rests(self, node: NodeView) -> bool:
        """Return whether offers of the node change nothing until `rest_turn` grows or the node's attempts
        change."""
        ...


def resting_of(policy: Policy) -> Resting | None:
    """Return the policy, or the admission of a composed policy, if its own class has `rests`; else None."""
    own: Any = policy
    if type(policy) in (Composed, Explained):
        own = own.admission
    return own if "rests" in vars(type(own)) else None


class Awaits:
    """The parts of a policy (the policy and its axes) that may need a heartbeat without news, by
    `awaits_beat`."""

    def __init__(self, policy: Policy) -> None:
        parts: tuple[Any, ...] = (policy, *getattr(policy, "axes", ()))
        self._waiting = [part for part in parts if hasattr(part, "awaits_beat")]
        self.ever = bool(self._waiting)

    def beat(self) -> bool:
        """Return whether any part needs the next heartbeat of any node."""
        return any(part.awaits_beat() for part in self._waiting)

    def pass_beat(self, view: View, node: NodeView) -> None:
        """Call the hook `beat` of these parts for a skipped heartbeat of the node, at the view's time."""
        for part in self._waiting:
            part.beat(view, node)
