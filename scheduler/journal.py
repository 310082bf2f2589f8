"""The JobTracker's journal: every event that the core takes, written to SQLite before it is applied.

The core is deterministic, so replaying the journal through a fresh core gives the state back.
"""

from __future__ import annotations

import pickle
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any


class Journal:
    """Events in the order in which they were applied, as (time, method of the core, arguments).

    Written without fsync: it survives the death of the process, not that of the host, and so does the run.
    The file is the run's own, in its private folder; it never comes over a socket.
    """

    def __init__(self, path: Path) -> None:
        self._database = sqlite3.connect(path, isolation_level=None)
        self._database.execute("PRAGMA journal_mode=WAL")
        self._database.execute("PRAGMA synchronous=OFF")
        self._database.execute(
            "CREATE TABLE IF NOT EXISTS events (number INTEGER PRIMARY KEY, t REAL, kind TEXT, arguments BLOB)"
        )

    def append(self, now_s: float, kind: str, *arguments: Any) -> None:
        """Writes one event; it is durable against the process's death when this returns."""
        blob = pickle.dumps(arguments, protocol=pickle.HIGHEST_PROTOCOL)
        self._database.execute(
            "INSERT INTO events (t, kind, arguments) VALUES (?, ?, ?)", (now_s, kind, blob)
        )

    def events(self) -> Iterator[tuple[float, str, tuple[Any, ...]]]:
        """All events, oldest first."""
        for now_s, kind, blob in self._database.execute(
            "SELECT t, kind, arguments FROM events ORDER BY number"
        ):
            yield now_s, kind, pickle.loads(blob)

    def close(self) -> None:
        """Closes the database."""
        self._database.close()
