"""A twin of the NameNode's journal in memory: changes of the file tree and histories of replicas.

Simulations use it instead of the SQLite file of `namenode_journal`.
"""

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
    """The twin of `namenode_journal.NamespaceJournal` in memory, with the same methods.

    It differs in three ways. Rows of removed replicas are dropped once later rows are requested. Changes of
    the namespace (the tree of files) are not stored if `keeps_changes` is False. An exception inside
    `together` undoes nothing.
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
        """Do nothing, because there is no file to close."""

    @contextmanager
    def together(self) -> Iterator[None]:
        """Run the `with` block without a transaction, which memory does not need."""
        yield

    def append(self, changes: Sequence[Change]) -> None:
        """Append changes of the tree of files to the journal. Do nothing if `keeps_changes` is False."""
        if self._keeps:
            self._changes.extend(changes)

    def changes(self) -> Iterator[Change]:
        """Return all changes of the tree of files, in the order in which they were appended."""
        return iter(self._changes)

    def begin_life(self, block: str, node: NodeId, length: int, now_s: float, cause: str) -> None:
        """Record a replica of `length` bytes that a node stored at `now_s`.

        `cause` is the reason why the replica exists, such as `write` or `repair`. If the replica is known
        already, only its length is updated.
        """
        lives = self._lives.get(node)
        if lives is None:
            lives = self._lives[node] = {}
        known = lives.get(block)
        life = (length, now_s, cause) if known is None else (length, known[1], known[2])
        if life != self._last:
            self._last = life
        lives[block] = self._last

    def end_life(self, block: str, node: NodeId, file: str, now_s: float | None) -> None:
        """Remove a replica from the existing replicas, and add a row to the rows for blocks.parquet.

        `file` is the path of the block's file. `now_s` is the time of the removal, or None if the replica
        still exists at the end of the run. Unknown replicas are ignored.
        """
        gone = self._lives.get(node, {}).pop(block, None)
        if gone is not None:
            length, added_s, cause = gone
            self._ended.append((block, file, node, length, added_s, now_s, cause))

    def living(self, node: NodeId | None = None) -> list[tuple[str, NodeId]]:
        """Return the block and the node of each existing replica, on the given node or on all nodes."""
        nodes = list(self._lives) if node is None else [node]
        return [(block, each) for each in nodes for block in self._lives.get(each, ())]

    def has_living(self) -> bool:
        """Return whether any replica exists."""
        return any(self._lives.values())

    def living_of(self, node: NodeId, cause: str) -> list[str]:
        """Return the blocks whose replica on a node was recorded by `begin_life` with the given cause."""
        return [block for block, life in self._lives.get(node, {}).items() if life[2] == cause]

    def ended(self, cursor: int, limit: int) -> tuple[int, list[dict[str, Any]]]:
        """Return up to `limit` rows of removed replicas that follow the position `cursor`, and a new cursor.

        The first call passes 0, and each later call passes the cursor returned by the previous call.
        """
        while self._forgotten < cursor and self._ended:
            self._ended.popleft()
            self._forgotten += 1
        rows = [dict(zip(ROW_COLUMNS, row, strict=True)) for row in islice(self._ended, limit)]
        return cursor + len(rows), rows

    def take_ended(self, limit: int) -> list[tuple[Any, ...]]:
        """Remove and return up to `limit` rows of removed replicas, as tuples in the order of `ROW_COLUMNS`.

        A caller uses either this method or `ended`, not both.
        """
        count = min(limit, len(self._ended))
        self._forgotten += count
        return [self._ended.popleft() for _ in range(count)]

    def take_living(self) -> Iterator[tuple[NodeId, dict[str, Life]]]:
        """Remove all existing replicas, and yield each node with a dictionary from block to replica.

        No other method may be called afterwards.
        """
        while self._lives:
            node = next(iter(self._lives))
            yield node, self._lives.pop(node)
