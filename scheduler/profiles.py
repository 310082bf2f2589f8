"""The profile store: an SQLite file with measurements of jobs in earlier runs, by kind and name.

The registry reads it once and passes plain values to policies, so that a replay of the journal decides the
same.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from schedbed.tasks.errors import BadInput

_TABLE = """
CREATE TABLE IF NOT EXISTS profiles (
    kind TEXT NOT NULL, name TEXT NOT NULL, profile TEXT NOT NULL, PRIMARY KEY (kind, name)
)
"""


def default_store() -> Path:
    """Return the user's store, which may not exist: `SCHEDBED_PROFILES`, or in the user's data folder."""
    named = os.environ.get("SCHEDBED_PROFILES")
    if named:
        return Path(named)
    data = os.environ.get("XDG_DATA_HOME")
    return (Path(data) if data else Path.home() / ".local" / "share") / "schedbed" / "profiles.sqlite"


def named_store(name: str) -> Path:
    return default_store() if name == "store" else Path(name)


def frozen_store(name: str, copy: Path) -> str:
    """Copy the store `name` (`store`, `none` or a path), and return the copy's path, or `none` without a
    store.

    A restarted JobTracker must read the same values although others write to the store. A damaged store's own
    name is returned, so that its reader reports the error.
    """
    if name == "none" or not named_store(name).is_file():
        return "none"
    try:
        with closing(sqlite3.connect(named_store(name))) as source, closing(sqlite3.connect(copy)) as target:
            source.backup(target)
    except sqlite3.DatabaseError:
        return name  # The readers of the store report the error.
    return str(copy)


class ProfileStore:
    """Values measured in earlier runs, by kind (`demand`) and name (a job's). All methods raise BadInput."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def load(self, kind: str, name: str) -> dict[str, Any] | None:
        """Return the values last saved, or None."""
        return self.load_all(kind).get(name)

    def load_all(self, kind: str) -> dict[str, dict[str, Any]]:
        """Return a kind's values by sorted name, none without a file."""
        if not self.path.exists():
            return {}
        with self._open() as db:
            rows = db.execute("SELECT name, profile FROM profiles WHERE kind = ? ORDER BY name", (kind,))
            return {name: json.loads(values) for name, values in rows}

    def save(self, kind: str, name: str, values: Mapping[str, Any], *, overwrite: bool = True) -> bool:
        """Save values unless others are kept (`overwrite`). Return whether they were saved."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        verb = "REPLACE" if overwrite else "IGNORE"
        with self._open() as db:
            done = db.execute(
                f"INSERT OR {verb} INTO profiles (kind, name, profile) VALUES (?, ?, ?)",
                (kind, name, json.dumps(dict(values), sort_keys=True)),
            )
            return done.rowcount > 0

    def clear(self, kind: str, name: str) -> None:
        """Delete the values saved for this kind and name, if any."""
        if self.path.exists():
            with self._open() as db:
                db.execute("DELETE FROM profiles WHERE kind = ? AND name = ?", (kind, name))

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(sqlite3.connect(self.path, timeout=30)) as db, db:
                db.execute(_TABLE)
                yield db
        except (sqlite3.DatabaseError, json.JSONDecodeError) as error:
            raise BadInput(f"profile store {self.path}: {error}") from None
