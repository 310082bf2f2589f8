"""The JobTracker's journal: every event is written to SQLite before the core applies it.

The core is deterministic: replaying the events after a snapshot through a core in the snapshot's state gives the
current state. The file holds two snapshots and the events since the older one, so its size is bounded.
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
"""Bytes of events after which a snapshot is due, or as many bytes as the last snapshot has, if these are more."""
EVENT_BYTES = 400
"""The least that an event counts: small events take time in a replay, too."""

_SCHEMA = """
PRAGMA journal_mode=WAL;
PRAGMA synchronous=OFF;
PRAGMA journal_size_limit=4194304;
CREATE TABLE IF NOT EXISTS events (number INTEGER PRIMARY KEY, t REAL, kind TEXT, arguments BLOB);
CREATE TABLE IF NOT EXISTS snapshots (number INTEGER PRIMARY KEY, digest BLOB, state BLOB);
"""


class Journal:
    """Events in the order in which they were applied, as (time, method of the core, arguments), and snapshots.

    Written without fsync: the journal survives the end of the process but not of the host, as does the run. The file
    is in the run's private folder and never comes from a socket.
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
        """Write one event. After the return it survives the end of the process."""
        blob = pickle.dumps(arguments, protocol=pickle.HIGHEST_PROTOCOL)
        self._number += 1
        self._database.execute("INSERT INTO events VALUES (?, ?, ?, ?)", (self._number, now_s, kind, blob))
        self._since += max(len(blob), EVENT_BYTES)

    def is_due(self) -> bool:
        """Implement `EventLog`: return true when the later events cost as much time to replay as a snapshot takes to
        write."""
        return self._since >= SNAPSHOT_BYTES and self._since >= self._least

    def keep(self, snapshot: bytes) -> None:
        """Implement `EventLog` in one transaction, so that a crash leaves either the old or the new state."""
        run = self._database.execute
        run("BEGIN")
        run("INSERT INTO snapshots VALUES (?, ?, ?)", (self._number, sha256(snapshot).digest(), snapshot))
        run("DELETE FROM snapshots WHERE number < ?", (self._last,))
        run("DELETE FROM events WHERE number <= ?", (self._last,))
        run("COMMIT")
        self._last, self._least, self._since = self._number, len(snapshot), 0

    def beginnings(self) -> Iterator[tuple[bytes | None, Iterable[Event]]]:
        """Implement `EventLog`."""
        query = "SELECT number, digest, state FROM snapshots ORDER BY number DESC"
        for number, digest, snapshot in self._database.execute(query).fetchall():
            if sha256(snapshot).digest() == digest:
                yield snapshot, self.events(number)
            else:
                log.warning("the snapshot after event %d is damaged", number)
        if self._one("SELECT MIN(number) FROM events")[0] in (None, 1):
            yield None, self.events()

    def events(self, after: int = 0) -> Iterator[Event]:
        """Return the events with larger numbers than `after`, oldest first."""
        query = "SELECT t, kind, arguments FROM events WHERE number > ? ORDER BY number"
        for now_s, kind, blob in self._database.execute(query, (after,)):
            yield now_s, kind, pickle.loads(blob)

    def close(self) -> None:
        """Close the database."""
        self._database.close()
