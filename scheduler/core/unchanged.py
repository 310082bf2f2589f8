"""A short way through the core for heartbeats of simulated nodes that report the same as the last heartbeat."""

from __future__ import annotations

from typing import Any

from schedbed.cluster.messages import Usage
from schedbed.scheduler.core.entities import Node
from schedbed.scheduler.core.ledger import Ledger
from schedbed.scheduler.hooks import hook
from schedbed.scheduler.policy import Policy


class UnchangedHeartbeats:
    """Processes heartbeats that change only the use of resources, as `Core.heartbeat`, without messages."""

    def __init__(self, ledger: Ledger, policy: Policy) -> None:
        self._ledger = ledger
        self._on_heartbeat: Any = hook(policy, "beat")
        self._typed = ledger.limits.slots
        self._offers_copies = ledger.speculation is not None

    def take(self, now_s: float, node: Node, sequence: int, usage: Usage) -> bool:
        """Process a heartbeat with an empty reply, or return False if the core must process a complete one.

        It must if the node's attempts have changed, tasks or copies may start, or orders or map outputs may
        wait. The caller ensures that nothing ended, no fetch failed, the disk is as before, and no message is
        lost.
        """
        ledger = self._ledger
        if node.calm != node.turn or node.outbox or node.feeds or not node.alive or self._offers_copies:
            return False
        typed = self._typed
        if ledger.ready_maps > 0 and (not typed or node.free_maps > 0):
            return False
        if ledger.ready_reduces > 0 and (not typed or node.free_reduces > 0):
            return False
        ledger.now_s = node.heard_s = now_s
        ledger.beats += 1
        node.sequence = sequence
        node.usage = usage
        if self._on_heartbeat is not None:
            self._on_heartbeat(ledger, node)
        return True
