"""A journal of the NameNode in memory, for simulations."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

from schedbed.cluster.blocks.namenode_journal import ROW_COLUMNS
from schedbed.cluster.blocks.namespace import Change
from schedbed.tasks.specs import NodeId

Life = tuple[int, float, str]
"""A replica's size in bytes, the time of its creation, and the cause."""


class MemoryJournal:
    """A journal in memory with the methods of `namenode_journal.NamespaceJournal`.

    Differences: rows are dropped once later rows are requested; changes are not stored if `keeps_changes` is
    False; an exception in `together` undoes nothing.
    """

    def __init__(self, *, keeps_changes: bool = True) -> None:
        self._keeps = keeps_changes
        self._changes: list[Change] = []
        self._lives: dict[NodeId, dict[str, Life]] = {}
        # Consecutive equal lives share one tuple, since there may be millions.
        self._last: Life = (0, 0.0, "")
        self._ended: deque[tuple[Any, ...]] = deque()
        self._forgotten = 0  # Number of rows dropped.

    def close(self) -> None:
        """Do nothing: there is no file to close."""

    @contextmanager
    def together(self) -> Iterator[None]:
        """Run the `with` block without a transaction, which memory does not need."""
        yield

    def append(self, changes: Sequence[Change]) -> None:
        """Append changes of the namespace, unless `keeps_changes` is False."""
        if self._keeps:
            self._changes.extend(changes)

    def changes(self) -> Iterator[Change]:
        """Return all changes, in order."""
        return iter(self._changes)

    def begin_life(self, block: str, node: NodeId, length: int, now_s: float, cause: str) -> None:
        """Record a replica that exists from `now_s` on. For a known replica, only the length is updated."""
        lives = self._lives.get(node)
        if lives is None:
            lives = self._lives[node] = {}
        known = lives.get(block)
        life = (length, now_s, cause) if known is None else (length, known[1], known[2])
        if life != self._last:
            self._last = life
        lives[block] = self._last

    def end_life(self, block: str, node: NodeId, file: str, now_s: float | None) -> None:
        """Write the row of a replica that was deleted at `now_s`, or still exists if `now_s` is None.

        Unknown replicas are ignored.
        """
        gone = self._lives.get(node, {}).pop(block, None)
        if gone is not None:
            length, added_s, cause = gone
            self._ended.append((block, file, node, length, added_s, now_s, cause))

    def living(self, node: NodeId | None = None) -> list[tuple[str, NodeId]]:
        """Return the block and node of each existing replica, on `node` or on all nodes."""
        nodes = list(self._lives) if node is None else [node]
        return [(block, each) for each in nodes for block in self._lives.get(each, ())]

    def living_of(self, node: NodeId, cause: str) -> list[str]:
        """Return the blocks of a node's existing replicas with the given cause."""
        return [block for block, life in self._lives.get(node, {}).items() if life[2] == cause]

    def ended(self, cursor: int, limit: int) -> tuple[int, list[dict[str, Any]]]:
        """Return the next cursor and up to `limit` rows of ended replicas after `cursor` (at first 0)."""
        while self._forgotten < cursor and self._ended:
            self._ended.popleft()
            self._forgotten += 1
        rows = [dict(zip(ROW_COLUMNS, row, strict=True)) for row in islice(self._ended, limit)]
        return cursor + len(rows), rows

    def take_ended(self, limit: int) -> list[tuple[Any, ...]]:
        """Remove and return up to `limit` rows of ended replicas, as tuples in the order of `ROW_COLUMNS`.

        For a single reader, instead of `ended`.
        """
        count = min(limit, len(self._ended))
        self._forgotten += count
        return [self._ended.popleft() for _ in range(count)]

    def take_living(self) -> Iterator[tuple[NodeId, dict[str, Life]]]:
        """Remove and yield the replicas that still exist, by node and block.

        For a single reader, as the last call on the journal.
        """
        while self._lives:
            node = next(iter(self._lives))
            yield node, self._lives.pop(node)
