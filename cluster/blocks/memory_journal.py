"""A twin of `namenode_journal` in memory, for simulations."""

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

    Unlike it: rows of removed replicas are dropped once later ones are requested, changes are stored only
    with `keeps_changes`, and an exception inside `together` undoes nothing.
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
        """Run the block without a transaction, which memory does not need."""
        yield

    def append(self, changes: Sequence[Change]) -> None:
        """Append changes, if `keeps_changes`."""
        if self._keeps:
            self._changes.extend(changes)

    def changes(self) -> Iterator[Change]:
        """Return all changes in the order of appending."""
        return iter(self._changes)

    def begin_life(self, block: str, node: NodeId, length: int, now_s: float, cause: str) -> None:
        """Record a replica. If it is known, only its length changes. A `cause` is such as `write` or `repair`."""
        lives = self._lives.get(node)
        if lives is None:
            lives = self._lives[node] = {}
        known = lives.get(block)
        life = (length, now_s, cause) if known is None else (length, known[1], known[2])
        if life != self._last:
            self._last = life
        lives[block] = self._last

    def end_life(self, block: str, node: NodeId, file: str, now_s: float | None) -> None:
        """End a replica with a row of blocks.parquet. `now_s` is None at the run's end. Ignores unknown ones."""
        gone = self._lives.get(node, {}).pop(block, None)
        if gone is not None:
            length, added_s, cause = gone
            self._ended.append((block, file, node, length, added_s, now_s, cause))

    def living(self, node: NodeId | None = None) -> list[tuple[str, NodeId]]:
        """Return (block, node) of existing replicas, on one node or all."""
        nodes = list(self._lives) if node is None else [node]
        return [(block, each) for each in nodes for block in self._lives.get(each, ())]

    def has_living(self) -> bool:
        return any(self._lives.values())

    def living_of(self, node: NodeId, cause: str) -> list[str]:
        """Return a node's blocks that `begin_life` recorded with `cause`."""
        return [block for block, life in self._lives.get(node, {}).items() if life[2] == cause]

    def ended(self, cursor: int, limit: int) -> tuple[int, list[dict[str, Any]]]:
        """Return a new cursor and up to `limit` rows of removed replicas after `cursor` (at first 0)."""
        while self._forgotten < cursor and self._ended:
            self._ended.popleft()
            self._forgotten += 1
        rows = [dict(zip(ROW_COLUMNS, row, strict=True)) for row in islice(self._ended, limit)]
        return cursor + len(rows), rows

    def take_ended(self, limit: int) -> list[tuple[Any, ...]]:
        """Take up to `limit` removed replicas, ordered as `ROW_COLUMNS`. Use either this or `ended`."""
        count = min(limit, len(self._ended))
        self._forgotten += count
        return [self._ended.popleft() for _ in range(count)]

    def take_living(self) -> Iterator[tuple[NodeId, dict[str, Life]]]:
        """Remove and yield each node's replicas. No other method may be called afterwards."""
        while self._lives:
            node = next(iter(self._lives))
            yield node, self._lives.pop(node)
