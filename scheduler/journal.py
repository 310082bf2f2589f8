"""The JobTracker's journal in SQLite. Every event is written before the core applies it.

It holds two snapshots and the events since the older one, so its size is bounded. Each event's checksum covers
the one before it, and a second small file holds the last event's number: an event that was changed or lost, even
at the end, would make a restarted JobTracker give ids twice.
"""

from __future__ import annotations

import logging
import os
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
CREATE TABLE IF NOT EXISTS events (number INTEGER PRIMARY KEY, t REAL, kind TEXT, arguments BLOB, chain BLOB);
CREATE TABLE IF NOT EXISTS snapshots (number INTEGER PRIMARY KEY, digest BLOB, state BLOB, chain BLOB);
"""
NUMBER_BYTES = 8


class JournalDamaged(ValueError):
    """The journal lacks events, or has changed ones. The message has one line that names the file."""


def _chained(before: bytes, number: int, now_s: float, kind: str, arguments: bytes) -> bytes:
    return sha256(before + repr((number, now_s, kind)).encode() + arguments).digest()


class Journal:
    """The SQLite file `path` with snapshots and events, in a private folder, so that it is safe to unpickle.

    Without fsync, it survives the end of the process, but not a crash of the host. `beginnings` raises
    JournalDamaged if it is damaged.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._database = sqlite3.connect(path, isolation_level=None)
        self._end = os.open(path.with_name(f"{path.name}-end"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._last = self._least = self._number = self._since = 0
        self._chain = b""
        self._damage = ""
        try:
            self._database.executescript(_SCHEMA)
            self._continue()
        except sqlite3.DatabaseError as error:
            self._damage = str(error)

    def _continue(self) -> None:
        """Continue after the last event of an earlier process, if there was one."""
        self._last, self._least, self._chain = self._one(
            "SELECT number, LENGTH(state), chain FROM snapshots ORDER BY number DESC LIMIT 1"
        ) or (0, 0, b"")
        [since] = self._one(
            "SELECT SUM(MAX(LENGTH(arguments), ?)) FROM events WHERE number > ?", EVENT_BYTES, self._last
        )
        self._number, self._chain = self._one(
            "SELECT number, chain FROM events WHERE number > ? ORDER BY number DESC LIMIT 1", self._last
        ) or (self._last, self._chain)
        self._since = since or 0
        end = os.pread(self._end, NUMBER_BYTES, 0)
        missing = int.from_bytes(end) - self._number
        if missing > 0:
            self._damage = f"the last {missing} of {missing + self._number} events are missing"
        elif self._number and len(end) < NUMBER_BYTES:
            self._damage = "the number of its last event is missing"

    def _one(self, query: str, *values: Any) -> Any:
        return self._database.execute(query, values).fetchone()

    def append(self, now_s: float, kind: str, *arguments: Any) -> None:
        """Write one event. From then on, the event survives the end of the process."""
        blob = pickle.dumps(arguments, protocol=pickle.HIGHEST_PROTOCOL)
        number = self._number + 1
        chain = _chained(self._chain, number, now_s, kind, blob)
        event = (number, now_s, kind, blob, chain)
        self._database.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?)", event)
        self._number, self._chain = number, chain
        os.pwrite(self._end, self._number.to_bytes(NUMBER_BYTES), 0)
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
        kept = (self._number, sha256(snapshot).digest(), snapshot, self._chain)
        run("INSERT INTO snapshots VALUES (?, ?, ?, ?)", kept)
        run("DELETE FROM snapshots WHERE number < ?", (self._last,))
        run("DELETE FROM events WHERE number <= ?", (self._last,))
        run("COMMIT")
        self._last, self._least, self._since = self._number, len(snapshot), 0

    def beginnings(self) -> Iterator[tuple[bytes | None, Iterable[Event]]]:
        """Implement `EventLog.beginnings`. A snapshot with a wrong checksum is skipped with a warning."""
        if self._damage:
            raise self._damaged(self._damage)
        try:
            query = "SELECT number, digest, state, chain FROM snapshots ORDER BY number DESC"
            for number, digest, snapshot, chain in self._database.execute(query).fetchall():
                if sha256(snapshot).digest() == digest:
                    yield snapshot, self.events(number, chain)
                else:
                    log.warning("the snapshot after event %d is damaged", number)
            if self._one("SELECT MIN(number) FROM events")[0] in (None, 1):
                yield None, self.events()
        except sqlite3.DatabaseError as error:
            raise self._damaged(str(error)) from error

    def events(self, after: int = 0, chain: bytes = b"") -> Iterator[Event]:
        """Yield the events after number `after`, whose checksum is `chain`, oldest first."""
        query = "SELECT number, t, kind, arguments, chain FROM events WHERE number > ? ORDER BY number"
        try:
            for number, now_s, kind, blob, said in self._database.execute(query, (after,)):
                after += 1
                chain = _chained(chain, after, now_s, kind, blob)
                if number != after or said != chain:
                    raise self._damaged(f"event {after} of {self._number} is missing or was changed")
                yield now_s, kind, pickle.loads(blob)
        except sqlite3.DatabaseError as error:
            raise self._damaged(str(error)) from error

    def _damaged(self, why: str) -> JournalDamaged:
        return JournalDamaged(
            f"the JobTracker's journal {self._path.name} is damaged ({why}), so that the run cannot go on"
        )

    def close(self) -> None:
        self._database.close()
        os.close(self._end)
