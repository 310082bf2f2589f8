"""The heartbeats and ticks that can be skipped because they change nothing.

A heartbeat of a node with nothing to report, no order to fetch and no free room for a task changes only the core's
sequence numbers. It still matters to a policy that reads what heartbeats bring (usage, progress) or counts them. All
heartbeats are therefore simulated unless the policy is `elidable`. A user's policy need not say so: its reads are
watched.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from schedbed.scheduler.guard.guarded_calls import BeatWatch
from schedbed.scheduler.policies.explained import Explained
from schedbed.scheduler.policy import Composed, Policy, says
from schedbed.scheduler.view import NodeView, View


def is_quiet(policy: Policy) -> bool:
    """Return whether heartbeats without news do not matter to the policy. With speculation they do, since copies
    depend on progress."""
    return getattr(policy, "speculation", None) is None and says(policy, "elidable") is True


def watch_of(policy: Policy) -> BeatWatch | None:
    """Follow what a user's policy reads, and return the watch; None for a shipped policy."""
    watch_beats: Callable[[], BeatWatch] | None = getattr(policy, "watch_beats", None)
    return None if watch_beats is None else watch_beats()


def acts_on_ticks(policy: Policy) -> bool:
    """Return whether the policy does anything on a tick: its attribute `acts_on_ticks`, else whether it has `tick` or
    `preempt`."""
    said: bool | None = getattr(policy, "acts_on_ticks", None)
    return said if said is not None else hasattr(policy, "tick") or hasattr(policy, "preempt")


class Resting(Protocol):
    """A shipped policy or admission that predicts which nodes it would refuse without writing a row, even if they have
    free slots. The heartbeats of these nodes can be skipped: the nodes rest.

    `rest_turn` grows when a resting node may get a task without having reported anything. A policy may also have
    `stage_ready(job, kind)`, which is called as soon as tasks may start; `changed` is called later.
    """

    rest_turn: int

    def rests(self, node: NodeView) -> bool:
        """Return whether an offer of the node changes nothing until `rest_turn` grows or the node's attempts
        change."""
        ...


def resting_of(policy: Policy) -> Resting | None:
    """Return the policy, or the admission of a composition, if its own class says which nodes rest."""
    own: Any = policy
    if type(policy) in (Composed, Explained):
        own = own.admission
    return own if "rests" in vars(type(own)) else None


class Awaits:
    """Parts of a policy that await a heartbeat of any node."""

    def __init__(self, policy: Policy) -> None:
        parts: tuple[Any, ...] = (policy, *getattr(policy, "axes", ()))
        self._waiting = [part for part in parts if hasattr(part, "awaits_beat")]
        self.ever = bool(self._waiting)

    def beat(self) -> bool:
        """Return whether a part awaits the next heartbeat."""
        return any(part.awaits_beat() for part in self._waiting)

    def pass_beat(self, view: View, node: NodeView) -> None:
        """Report the awaited heartbeat, without other content, to the policy at the view's time."""
        for part in self._waiting:
            part.beat(view, node)
