"""Reference for the fetched blocks that the replication scheme DARE keeps on the readers' nodes (xu2015
3.2.2).
"""

from __future__ import annotations

from collections import Counter
from math import inf
from typing import Any

from tests.search.violation import hold

CHECK = "copies of what is read least go first"


class KeptRule:
    """The kept copies in order of arrival, with the number of reads of each block.

    Above the budget, the oldest copy of the least-read block is evicted.
    """

    def __init__(self) -> None:
        self.start_over()

    def start_over(self) -> None:
        """Reset to no copies and no reads."""
        self._copies: list[tuple[str, str, int]] = []
        self._began: list[str] = []  # Blocks with copies, by the time of their first copy.
        self._let_go: list[tuple[str, str]] = []
        self._reads: Counter[str] = Counter()
        self._budget_bytes = inf

    def count(self, block: str) -> int:
        """Return the number of kept copies of the block, in addition to its replicas."""
        return sum(each[0] == block for each in self._copies)

    def is_copy(self, block: str, node: str) -> bool:
        """Return whether the block's replica on the node is a kept copy."""
        return any(each[:2] == (block, node) for each in self._copies)

    def let_go(self, block: str) -> list[str]:
        """Return the nodes whose copy of the block is evicted but not deleted yet, in order of eviction."""
        return [node for evicted, node in self._let_go if evicted == block]

    def read(self, block: str, length: int, budget_bytes: float) -> bool:
        """Count a read of the block, and return whether a copy may be kept.

        A copy may be kept if it fits into the budget, at least after evicting blocks with fewer reads.
        """
        self._reads[block] += 1
        self._budget_bytes = budget_bytes
        stay = [
            size
            for other, _, size in self._copies
            if other == block or self._reads[other] >= self._reads[block]
        ]
        used = sum(size for _, _, size in self._copies)
        return used + length <= budget_bytes or sum(stay) + length <= budget_bytes

    def keep(self, block: str, node: str, length: int) -> None:
        """Add a copy, and evict others until all fit into the budget."""
        self._copies.append((block, node, length))
        self._note_beginnings()
        while sum(size for _, _, size in self._copies) > self._budget_bytes:
            fewest = min(self._reads[other] for other, _, _ in self._copies)
            # Among blocks with equal reads, the one with the earliest first copy is evicted.
            first = next(other for other in self._began if self._reads[other] == fewest)
            evicted = next(each for each in self._copies if each[0] == first)
            self._copies.remove(evicted)
            self._note_beginnings()
            if evicted[:2] not in self._let_go:
                self._let_go.append((evicted[0], evicted[1]))

    def _note_beginnings(self) -> None:
        blocks = dict.fromkeys(block for block, _, _ in self._copies)
        self._began = [block for block in self._began if block in blocks]
        self._began += [block for block in blocks if block not in self._began]

    def settle(self, block: str, good: list[str], target: int) -> None:
        """Drop copies that are gone, and count the oldest copies as replicas while replicas are missing."""
        there = [each for each in self._copies if each[0] == block and each[1] in good]
        staying = there[max(0, len(there) - max(0, len(good) - target)) :]
        self._copies = [each for each in self._copies if each[0] != block or each in staying]
        self._note_beginnings()
        many = len(good) > target
        self._let_go = [each for each in self._let_go if each[0] != block or (each[1] in good and many)]

    def forget(self, block: str) -> None:
        """Drop a block that no longer belongs to a file."""
        self.settle(block, [], 0)
        del self._reads[block]

    def check(self, kept: Any) -> None:
        """Compare the kept copies, the evicted ones and the counts of reads with the block store's."""
        copies = {(block, node, size) for block, each in kept._copies.items() for node, size in each.items()}
        hold(copies == set(self._copies), CHECK, f"{copies} instead of {self._copies}")
        let_go = [(block, node) for block, each in kept._let_go.items() for node in each]
        hold(sorted(let_go) == sorted(self._let_go), CHECK, f"{let_go} evicted instead of {self._let_go}")
        used = sum(size for _, _, size in self._copies)
        hold(kept._used_bytes == used, CHECK, f"{kept._used_bytes} instead of {used} bytes")
        reads = {block: count for block, count in kept._reads.items() if count}
        hold(reads == {b: n for b, n in self._reads.items() if n}, CHECK, f"{reads} instead of {self._reads}")
