"""Replicas kept by maps that fetched their block. Mirrors `cluster.agent.replica_keeper`; differs in that no bytes
are moved."""

from __future__ import annotations

from collections.abc import Callable

from schedbed.cluster.messages import AttemptReport
from schedbed.cluster.virtual.node_model import AttemptPlan
from schedbed.scheduler.policies.keeper_choice import Keeping
from schedbed.scheduler.simulate.storage import Storage

Keep = Callable[[float, str, str, int], None]
"""Makes a replica: takes the time, the block, the node, and the bytes of the block that were read there."""


class Copies:
    """Asks the NameNode when a map starts whether to keep its block, and adds the replica when the map has
    succeeded."""

    def __init__(self, keeping: Keeping, seed: int, storage: Storage, keep: Keep) -> None:
        self._keeping = keeping
        self._seed = seed
        self._storage = storage
        self._keep = keep
        self._fetching: dict[str, tuple[str, int]] = {}  # by attempt: the block, and what is read of it

    def launched(self, node: str, plan: AttemptPlan) -> None:
        """Note a starting map that will keep its block."""
        if not plan.blocks or not self._keeping.asks(self._seed, plan.attempt):
            return
        names, (block, read_bytes) = self._storage.names, plan.blocks[0]
        fetches = node not in names.holders(block)
        if fetches and names.keeps(node, block, self._keeping.budget)["keep"]:
            self._fetching[plan.attempt] = (block, read_bytes)

    def ended(self, now_s: float, node: str, report: AttemptReport) -> None:
        """Add the noted replica if the ended attempt succeeded."""
        block, read_bytes = self._fetching.pop(report.attempt, ("", 0))
        if block and report.state == "succeeded":
            self._keep(now_s, block, node, read_bytes)
