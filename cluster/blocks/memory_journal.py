"""A journal of the NameNode that is kept in memory only, and costs little: for simulations."""

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
"""Bytes of a replica, since when it lives, and what brought it."""


class MemoryJournal:
    """As `journal.Journal`; rows that were polled are forgotten, changes that nobody will replay too.

    Nothing is undone when an exception passes `together`.
    """

    def __init__(self, *, keeps_changes: bool = True) -> None:
        self._keeps = keeps_changes
        self._changes: list[Change] = []
        self._lives: dict[NodeId, dict[str, Life]] = {}
        # Replicas that come one after the other share their life: there may be millions.
        self._last: Life = (0, 0.0, "")
        self._ended: deque[tuple[Any, ...]] = deque()
        self._forgotten = 0  # rows

    def close(self) -> None:
        """Nothing to let go of."""

    @contextmanager
    def together(self) -> Iterator[None]:
        """Nothing to hold together."""
        yield

    def append(self, changes: Sequence[Change]) -> None:
        """Write changes down."""
        if self._keeps:
            self._changes.extend(changes)

    def changes(self) -> Iterator[Change]:
        """Return all changes, in order."""
        return iter(self._changes)

    def begin_life(self, block: str, node: NodeId, length: int, now_s: float, cause: str) -> None:
        """A replica lives from now on; one that is known to live goes on as it was, with this length."""
        lives = self._lives.get(node)
        if lives is None:
            lives = self._lives[node] = {}
        known = lives.get(block)
        life = (length, now_s, cause) if known is None else (length, known[1], known[2])
        if life != self._last:
            self._last = life
        lives[block] = self._last

    def end_life(self, block: str, node: NodeId, file: str, now_s: float | None) -> None:
        """A replica is gone, or (None) lives at the end; nothing happens when it is not known to live."""
        gone = self._lives.get(node, {}).pop(block, None)
        if gone is not None:
            length, added_s, cause = gone
            self._ended.append((block, file, node, length, added_s, now_s, cause))

    def living(self, node: NodeId | None = None) -> list[tuple[str, NodeId]]:
        """Block and node of the replicas that are known to live, on one node or on all."""
        nodes = list(self._lives) if node is None else [node]
        return [(block, each) for each in nodes for block in self._lives.get(each, ())]

    def living_of(self, node: NodeId, cause: str) -> list[str]:
        """Blocks of the replicas on a node that are known to live and came to be so."""
        return [block for block, life in self._lives.get(node, {}).items() if life[2] == cause]

    def ended(self, cursor: int, limit: int) -> tuple[int, list[dict[str, Any]]]:
        """Return rows of lives that ended after the cursor, and the next cursor; 0 is the beginning."""
        while self._forgotten < cursor and self._ended:
            self._ended.popleft()
            self._forgotten += 1
        rows = [dict(zip(ROW_COLUMNS, row, strict=True)) for row in islice(self._ended, limit)]
        return cursor + len(rows), rows

    def take_ended(self, limit: int) -> list[tuple[Any, ...]]:
        """As `ended`, for the only reader: plain rows, each told once."""
        count = min(limit, len(self._ended))
        self._forgotten += count
        return [self._ended.popleft() for _ in range(count)]

    def take_living(self) -> Iterator[tuple[NodeId, dict[str, Life]]]:
        """Yield all that still live, by node and block, for the only reader: each told once, as the last of all."""
        while self._lives:
            node = next(iter(self._lives))
            yield node, self._lives.pop(node)
