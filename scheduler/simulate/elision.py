"""Which heartbeats and ticks need not be played because nothing could come of them.

A heartbeat of a node that has nothing to report, no order to fetch and nothing to be offered changes the core's
sequence numbers only. It matters to a policy all the same when that looks at what heartbeats bring (usage,
progress) or counts them, so each policy is asked: whoever does not say `elidable` has all of them played.
"""

from __future__ import annotations

from typing import Any

from schedbed.scheduler.policy import Policy, says
from schedbed.scheduler.view import NodeView, View


def is_quiet(policy: Policy) -> bool:
    """Says whether heartbeats that bring nothing mean nothing to the policy; copies follow progress."""
    return getattr(policy, "speculation", None) is None and says(policy, "elidable") is True


def acts_on_ticks(policy: Policy) -> bool:
    """Says whether the policy does anything on a tick; one that does not say has the methods for it or not."""
    said: bool | None = getattr(policy, "acts_on_ticks", None)
    return said if said is not None else hasattr(policy, "tick") or hasattr(policy, "preempt")


class Awaits:
    """Whether the next heartbeat, whichever node's, changes what the policy keeps."""

    def __init__(self, policy: Policy) -> None:
        parts: tuple[Any, ...] = (policy, *getattr(policy, "axes", ()))
        self._waiting = [part for part in parts if hasattr(part, "awaits_beat")]
        self.ever = bool(self._waiting)

    def beat(self) -> bool:
        """Ask for now."""
        return any(part.awaits_beat() for part in self._waiting)

    def pass_beat(self, view: View, node: NodeView) -> None:
        """Tells the policy that the heartbeat has come, at the view's time, with nothing else in it."""
        for part in self._waiting:
            part.beat(view, node)
