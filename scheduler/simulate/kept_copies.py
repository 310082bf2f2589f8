"""Replicas of blocks that simulated maps keep on their node after they have fetched them.

Mirrors `cluster.agent.replica_keeper`, but no bytes are moved.
"""

from __future__ import annotations

from collections.abc import Callable

from schedbed.cluster.messages import AttemptReport
from schedbed.cluster.virtual.node_model import AttemptPlan
from schedbed.scheduler.policies.keeper_choice import Keeping
from schedbed.scheduler.simulate.storage import Storage

Keep = Callable[[float, str, str, int], None]
"""A function that adds a replica: of the time, the block, the node, and the number of bytes that a map read there."""


class Copies:
    """The running maps that will keep the block they fetch as a replica. The replica is added when the map
    succeeds."""

    def __init__(self, keeping: Keeping, seed: int, storage: Storage, keep: Keep) -> None:
        self._keeping = keeping
        self._seed = seed
        self._storage = storage
        self._keep = keep
        # By attempt: the block, and the number of its bytes that the attempt reads.
        self._fetching: dict[str, tuple[str, int]] = {}

    def launched(self, node: str, plan: AttemptPlan) -> None:
        """Record a launched attempt if it will keep the block that it fetches as a replica.

        The block is kept if the settings choose the attempt and the NameNode allows another replica on the
        node.
        """
        if not plan.blocks or not self._keeping.asks(self._seed, plan.attempt):
            return
        names, (block, read_bytes) = self._storage.names, plan.blocks[0]
        fetches = node not in names.holders(block)
        if fetches and names.keeps(node, block, self._keeping.budget)["keep"]:
            self._fetching[plan.attempt] = (block, read_bytes)

    def ended(self, now_s: float, node: str, report: AttemptReport) -> None:
        """Add the replica on the node if the ended attempt has kept its block and succeeded."""
        block, read_bytes = self._fetching.pop(report.attempt, ("", 0))
        if block and report.state == "succeeded":
            self._keep(now_s, block, node, read_bytes)
