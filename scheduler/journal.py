"""The JobTracker's journal in SQLite. Every event is written before the core applies it.

It holds two snapshots and the events since the older one, so its size is bounded. An event that was changed or
lost, even at the end, would make a restarted JobTracker give ids twice, so events have a chain of checksums.
"""

from __future__ import annotations

import logging
import pickle
import sqlite3
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

from schedbed.cluster.checksum_chain import ChecksumChain
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


def _content(now_s: float, kind: str, arguments: bytes) -> bytes:
    return repr((now_s, kind)).encode() + arguments


class Journal:
    """The SQLite file `path` with snapshots and events, in a private folder, so that it is safe to unpickle.

    Without fsync, it survives the end of the process, but not a crash of the host. `beginnings` raises
    JournalDamaged if it is damaged.
    """

    def __init__(self, path: Path) -> None:
        self._database = sqlite3.connect(path, isolation_level=None)
        self._last = self._least = self._since = 0
        self._chain = ChecksumChain("JobTracker", path)
        self._chain.open(self._continue)

    def _continue(self) -> tuple[int, bytes]:
        """Continue after the last event of an earlier process. Return the event's number and checksum."""
        self._database.executescript(_SCHEMA)
        self._last, self._least, checksum = self._one(
            "SELECT number, LENGTH(state), chain FROM snapshots ORDER BY number DESC LIMIT 1"
        ) or (0, 0, b"")
        [since] = self._one(
            "SELECT SUM(MAX(LENGTH(arguments), ?)) FROM events WHERE number > ?", EVENT_BYTES, self._last
        )
        self._since = since or 0
        return self._one(
            "SELECT number, chain FROM events WHERE number > ? ORDER BY number DESC LIMIT 1", self._last
        ) or (self._last, checksum)

    def _one(self, query: str, *values: Any) -> Any:
        return self._database.execute(query, values).fetchone()

    def append(self, now_s: float, kind: str, *arguments: Any) -> None:
        """Write one event. From then on, the event survives the end of the process."""
        blob = pickle.dumps(arguments, protocol=pickle.HIGHEST_PROTOCOL)
        number, checksum = self._chain.add(_content(now_s, kind, blob))
        event = (number, now_s, kind, blob, checksum)
        self._database.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?)", event)
        self._chain.stored()
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
        kept = (self._chain.number, sha256(snapshot).digest(), snapshot, self._chain.checksum)
        run("INSERT INTO snapshots VALUES (?, ?, ?, ?)", kept)
        run("DELETE FROM snapshots WHERE number < ?", (self._last,))
        run("DELETE FROM events WHERE number <= ?", (self._last,))
        run("COMMIT")
        self._last, self._least, self._since = self._chain.number, len(snapshot), 0

    def beginnings(self) -> Iterator[tuple[bytes | None, Iterable[Event]]]:
        """Implement `EventLog.beginnings`. A snapshot with a wrong checksum is skipped with a warning."""
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
            raise self._chain.damaged(str(error)) from error

    def events(self, after: int = 0, chain: bytes = b"") -> Iterator[Event]:
        """Yield the events after number `after`, whose checksum is `chain`, oldest first."""
        query = "SELECT number, t, kind, arguments, chain FROM events WHERE number > ? ORDER BY number"
        read = lambda: (  # noqa: E731
            (number, _content(now_s, kind, blob), said, (now_s, kind, blob))
            for number, now_s, kind, blob, said in self._database.execute(query, (after,))
        )
        for now_s, kind, blob in self._chain.checked(read, after, chain):
            yield now_s, kind, pickle.loads(blob)

    def close(self) -> None:
        self._database.close()
        self._chain.close()
