"""The NameNode's state in an SQLite file: changes of the tree of files, and histories of replicas.

A method's effect survives a crash of the process, but not of the host.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from schedbed.cluster.blocks.namespace import Change
from schedbed.cluster.checksum_chain import ChecksumChain
from schedbed.tasks.specs import NodeId

ROW_COLUMNS: tuple[str, ...] = ("block", "file", "node", "bytes", "added", "removed", "cause")
"""The columns of blocks.parquet; `removed` is None for a replica that still lived at the end."""

_SCHEMA = """
PRAGMA journal_mode=WAL;
PRAGMA synchronous=OFF;
CREATE TABLE IF NOT EXISTS changes (id INTEGER PRIMARY KEY, change TEXT NOT NULL, chain BLOB);
CREATE TABLE IF NOT EXISTS lives (
    block TEXT, node TEXT, bytes INTEGER, added REAL, cause TEXT, PRIMARY KEY (block, node)
);
CREATE TABLE IF NOT EXISTS ended (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    block TEXT, file TEXT, node TEXT, bytes INTEGER, added REAL, removed REAL, cause TEXT
);
"""


class NamespaceJournal:
    """The journal of a NameNode: an SQLite file, or in memory if `path` is None.

    Changes have a chain of checksums, as in the JobTracker's journal. `memory_journal.MemoryJournal` is a faster
    twin for simulations.
    """

    def __init__(self, path: Path | str | None) -> None:
        # An actor may be created in one thread and called in another, but never in two at the same time.
        self._db = sqlite3.connect(path or ":memory:", isolation_level=None, check_same_thread=False)
        self._chain = ChecksumChain("NameNode", None if path is None else Path(path))
        self._chain.open(self._last)

    def _last(self) -> tuple[int, bytes]:
        """Return the number and checksum of the last change."""
        self._db.executescript(_SCHEMA)
        last = self._db.execute("SELECT id, chain FROM changes ORDER BY id DESC LIMIT 1").fetchone()
        return last or (0, b"")

    def close(self) -> None:
        self._db.close()
        self._chain.close()

    @contextmanager
    def together(self) -> Iterator[None]:
        """Run the `with` block as one transaction, which an exception undoes."""
        self._db.execute("BEGIN")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            self._chain.open(self._last)
            raise
        self._db.execute("COMMIT")
        self._chain.stored()

    # -- the namespace ---------------------------------------------------------------------------------------

    def append(self, changes: Sequence[Change]) -> None:
        """Append changes of the tree of files to the journal, in one transaction."""
        texts = [json.dumps(change) for change in changes]
        with self.together():
            for text in texts:
                number, checksum = self._chain.add(text.encode())
                self._db.execute("INSERT INTO changes VALUES (?, ?, ?)", (number, text, checksum))

    def changes(self) -> Iterator[Change]:
        """Yield all changes in the order of appending. Raises JournalDamaged."""
        read = lambda: (  # noqa: E731
            (number, text.encode(), said, text)
            for number, text, said in self._db.execute("SELECT id, change, chain FROM changes ORDER BY id")
        )
        yield from map(json.loads, self._chain.checked(read))

    # -- replicas --------------------------------------------------------------------------------------------

    def begin_life(self, block: str, node: NodeId, length: int, now_s: float, cause: str) -> None:
        """Record a replica. If it is known, only its length changes. A `cause` is such as `write` or `repair`."""
        self._db.execute(
            "INSERT INTO lives VALUES (?,?,?,?,?) ON CONFLICT DO UPDATE SET bytes = excluded.bytes",
            (block, node, length, now_s, cause),
        )

    def end_life(self, block: str, node: NodeId, file: str, now_s: float | None) -> None:
        """End a replica with a row of blocks.parquet. `now_s` is None at the run's end. Ignores unknown ones."""
        gone = self._db.execute(
            "DELETE FROM lives WHERE block = ? AND node = ? RETURNING bytes, added, cause", (block, node)
        ).fetchone()
        if gone is not None:
            length, added_s, cause = gone
            self._db.execute(
                "INSERT INTO ended (block, file, node, bytes, added, removed, cause) VALUES (?,?,?,?,?,?,?)",
                (block, file, node, length, added_s, now_s, cause),
            )

    def living(self, node: NodeId | None = None) -> list[tuple[str, NodeId]]:
        """Return (block, node) of existing replicas, on one node or all."""
        where, arguments = ("", ()) if node is None else (" WHERE node = ?", (node,))
        return list(self._db.execute(f"SELECT block, node FROM lives{where} ORDER BY rowid", arguments))

    def living_of(self, node: NodeId, cause: str) -> list[str]:
        """Return a node's blocks that `begin_life` recorded with `cause`."""
        found = self._db.execute("SELECT block FROM lives WHERE node = ? AND cause = ?", (node, cause))
        return [block for (block,) in found]

    def ended(self, cursor: int, limit: int) -> tuple[int, list[dict[str, Any]]]:
        """Return a new cursor and up to `limit` rows of removed replicas after `cursor` (at first 0)."""
        columns = ", ".join(ROW_COLUMNS)
        found = self._db.execute(
            f"SELECT id, {columns} FROM ended WHERE id > ? ORDER BY id LIMIT ?", (cursor, limit)
        ).fetchall()
        rows = [dict(zip(ROW_COLUMNS, row[1:], strict=True)) for row in found]
        return (found[-1][0] if found else cursor), rows
