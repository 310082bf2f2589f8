"""The replication scheme DARE, which keeps blocks that maps had to fetch as additional replicas.

A block that a map fetched from another node stays on the map's node, within a budget. When the budget is used
up, the copies of the blocks with the fewest fetches are deleted. The budget is a share of the size of all
inputs including their replicas, for the whole cluster. See the thesis xu2015, section 3.2.2. Its section 6.2
proposes the same scheme for the scheduler DTSS.
"""

from __future__ import annotations

from math import inf

from schedbed.tasks.specs import NodeId

CAUSE = "dare"
"""The cause in blocks.parquet of a kept copy."""


class DareCopies:
    """The copies of blocks that the replication scheme DARE keeps in addition to ordinary replicas.

    The number of fetches of each block is also recorded. If an ordinary replica is lost, a copy replaces it
    and counts as an ordinary replica from then on.
    """

    def __init__(self) -> None:
        self.budget_bytes = inf
        self._copies: dict[str, dict[NodeId, int]] = {}  # block -> node -> bytes, oldest first
        self._let_go: dict[str, dict[NodeId, None]] = {}  # Evicted copies, not yet deleted.
        self._reads: dict[str, int] = {}
        self._used_bytes = 0

    def count(self, block: str) -> int:
        """Return the number of copies of a block that are kept in addition to its ordinary replicas."""
        return len(self._copies.get(block, ()))

    def is_copy(self, block: str, node: NodeId) -> bool:
        """Return whether the replica of a block on a node is a kept copy, not an ordinary replica."""
        return node in self._copies.get(block, ())

    def let_go(self, block: str) -> list[NodeId]:
        """Return the nodes whose copy of a block was evicted to save budget, but has not been deleted yet."""
        return list(self._let_go.get(block, ()))

    def read(self, block: str, length: int) -> bool:
        """Record that a block of `length` bytes was fetched.

        Return whether the budget allows a copy of the block. Copies of blocks with fewer fetches do not use
        up the budget, since they can be deleted.
        """
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
        """Record a copy of `length` bytes on a node, and evict other copies while the budget is exceeded.

        Return the blocks of the evicted copies, which are those with the fewest fetches.
        """
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
        """Update the copies of a block after its replicas have changed.

        `good` are the nodes with a good replica or copy, and `target` is the wanted number of replicas. Lost
        copies, and copies that now replace lost replicas, are removed from the records.
        """
        copies = list(self._copies.get(block, ()))
        there = [node for node in copies if node in good]
        # The oldest copies replace lost replicas, so that copies are always additional to the target.
        adopted = there[: max(0, len(there) - max(0, len(good) - target))]
        for node in copies:
            if node not in there or node in adopted:
                self.drop(block, node)
        for node in self.let_go(block):
            if node not in good or len(good) <= target:
                self._forget_eviction(block, node)

    def drop(self, block: str, node: NodeId) -> None:
        """Remove a copy from the records, and subtract the size of the copy from the used budget."""
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
        """Remove all records of a block that no longer belongs to a file."""
        self.settle(block, [], 0)
        self._reads.pop(block, None)
