"""Replicas beyond their files' replication, of blocks that were read on nodes without a replica.

DARE (xu2015 3.2.2): a block that a map had to fetch stays on the node, within a budget; when the budget is used up,
the copies of the least-read blocks are deleted. Section 6.2 proposes the same for DTSS. The budget is a share of the
size of all inputs with their replicas, for the whole cluster.
"""

from __future__ import annotations

from math import inf

from schedbed.tasks.specs import NodeId

CAUSE = "dare"
"""The cause in blocks.parquet of a kept copy."""


class Kept:
    """The replicas that are kept copies, and the number of fetches of each block.

    A copy that replaces a lost replica is `adopted`: it no longer counts as a copy.
    """

    def __init__(self) -> None:
        self.budget_bytes = inf
        self._copies: dict[str, dict[NodeId, int]] = {}  # block -> node -> bytes, oldest first
        self._let_go: dict[str, dict[NodeId, None]] = {}  # copies that were evicted and are to be deleted
        self._reads: dict[str, int] = {}
        self._used_bytes = 0

    def count(self, block: str) -> int:
        """Return how many replicas of a block are kept in addition to its target."""
        return len(self._copies.get(block, ()))

    def is_copy(self, block: str, node: NodeId) -> bool:
        """Return whether the replica on the node is a kept copy."""
        return node in self._copies.get(block, ())

    def let_go(self, block: str) -> list[NodeId]:
        """Return the nodes whose copy was evicted but not deleted yet."""
        return list(self._let_go.get(block, ()))

    def read(self, block: str, length: int) -> bool:
        """Count a fetch of a block. Return whether there is room for a copy of it."""
        self._reads[block] = reads = self._reads.get(block, 0) + 1
        if self._used_bytes + length <= self.budget_bytes:
            return True
        less_read = (
            copies
            for other, copies in self._copies.items()
            if other != block and self._reads.get(other, 0) < reads
        )
        return (
            sum(sum(copies.values()) for copies in less_read) + self.budget_bytes >= self._used_bytes + length
        )

    def add(self, block: str, node: NodeId, length: int) -> list[str]:
        """Add a copy. Return the blocks of the copies that are evicted for it."""
        self._copies.setdefault(block, {})[node] = length
        self._used_bytes += length
        evicted: list[str] = []
        while self._used_bytes > self.budget_bytes:
            least = min(self._copies, key=lambda each: self._reads.get(each, 0))
            oldest = next(iter(self._copies[least]))
            self._let_go.setdefault(least, {})[oldest] = None
            self.drop(least, oldest)
            evicted.append(least)
        return evicted

    def settle(self, block: str, good: list[NodeId], target: int) -> None:
        """Update the copies after a change of the block's good replicas: lost and adopted ones no longer count."""
        copies = list(self._copies.get(block, ()))
        there = [node for node in copies if node in good]
        # The oldest take the places of lost replicas, so that what counts as a copy is on top of the target.
        adopted = there[: max(0, len(there) - max(0, len(good) - target))]
        for node in copies:
            if node not in there or node in adopted:
                self.drop(block, node)
        for node in self.let_go(block):
            if node not in good or len(good) <= target:
                self._forget_eviction(block, node)

    def drop(self, block: str, node: NodeId) -> None:
        """Remove a copy from the books."""
        copies = self._copies[block]
        self._used_bytes -= copies.pop(node)
        if not copies:
            del self._copies[block]

    def _forget_eviction(self, block: str, node: NodeId) -> None:
        evicted = self._let_go[block]
        del evicted[node]
        if not evicted:
            del self._let_go[block]

    def forget(self, block: str) -> None:
        """Forget a block that belongs to no file any more."""
        self.settle(block, [], 0)
        self._reads.pop(block, None)
