"""The JobTracker's journal in SQLite. Every event is written before the core applies it.

It holds two snapshots and the events since the older one, so its size is bounded.
"""

from __future__ import annotations

import logging
import pickle
import sqlite3
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

from schedbed.scheduler.event_log import Event

log = logging.getLogger(__name__)

SNAPSHOT_BYTES = 8 << 20
"""The size of events in bytes after which a snapshot is due; the last snapshot's size if that is larger."""
EVENT_BYTES = 400
"""The minimum size in bytes counted for an event, because small events also take time in a replay."""

_SCHEMA = """
PRAGMA journal_mode=WAL;
PRAGMA synchronous=OFF;
PRAGMA journal_size_limit=4194304;
CREATE TABLE IF NOT EXISTS events (number INTEGER PRIMARY KEY, t REAL, kind TEXT, arguments BLOB);
CREATE TABLE IF NOT EXISTS snapshots (number INTEGER PRIMARY KEY, digest BLOB, state BLOB);
"""


class Journal:
    """The SQLite file `path` with snapshots and events, in a private folder, so that it is safe to unpickle.

    Without fsync, it survives the end of the process, but not a crash of the host.
    """

    def __init__(self, path: Path) -> None:
        self._database = sqlite3.connect(path, isolation_level=None)
        self._database.executescript(_SCHEMA)
        self._last, self._least = self._one(
            "SELECT number, LENGTH(state) FROM snapshots ORDER BY number DESC LIMIT 1"
        ) or (0, 0)
        [newest, self._since] = self._one(
            "SELECT MAX(number), SUM(MAX(LENGTH(arguments), ?)) FROM events WHERE number > ?",
            EVENT_BYTES,
            self._last,
        )
        self._number: int = newest or self._last
        self._since = self._since or 0

    def _one(self, query: str, *values: Any) -> Any:
        return self._database.execute(query, values).fetchone()

    def append(self, now_s: float, kind: str, *arguments: Any) -> None:
        """Write one event. From then on, the event survives the end of the process."""
        blob = pickle.dumps(arguments, protocol=pickle.HIGHEST_PROTOCOL)
        self._number += 1
        self._database.execute("INSERT INTO events VALUES (?, ?, ?, ?)", (self._number, now_s, kind, blob))
        self._since += max(len(blob), EVENT_BYTES)

    def is_due(self) -> bool:
        """Return whether SNAPSHOT_BYTES, and the last snapshot's size, of events follow it.

        Snapshots thus cost no more than events.
        """
        return self._since >= SNAPSHOT_BYTES and self._since >= self._least

    def keep(self, snapshot: bytes) -> None:
        """Store a snapshot and remove the events before the previous one, in one transaction."""
        run = self._database.execute
        run("BEGIN")
        run("INSERT INTO snapshots VALUES (?, ?, ?)", (self._number, sha256(snapshot).digest(), snapshot))
        run("DELETE FROM snapshots WHERE number < ?", (self._last,))
        run("DELETE FROM events WHERE number <= ?", (self._last,))
        run("COMMIT")
        self._last, self._least, self._since = self._number, len(snapshot), 0

    def beginnings(self) -> Iterator[tuple[bytes | None, Iterable[Event]]]:
        """Implement `EventLog.beginnings`. A snapshot with a wrong checksum is skipped with a warning."""
        query = "SELECT number, digest, state FROM snapshots ORDER BY number DESC"
        for number, digest, snapshot in self._database.execute(query).fetchall():
            if sha256(snapshot).digest() == digest:
                yield snapshot, self.events(number)
            else:
                log.warning("the snapshot after event %d is damaged", number)
        if self._one("SELECT MIN(number) FROM events")[0] in (None, 1):
            yield None, self.events()

    def events(self, after: int = 0) -> Iterator[Event]:
        """Return the events with numbers greater than `after`, oldest first."""
        query = "SELECT t, kind, arguments FROM events WHERE number > ? ORDER BY number"
        for now_s, kind, blob in self._database.execute(query, (after,)):
            yield now_s, kind, pickle.loads(blob)

    def close(self) -> None:
        self._database.close()
