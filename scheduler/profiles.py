"""The profile store: what was measured of jobs in earlier runs, as JSON values by kind and name, in SQLite.

Policies never open it: the registry reads it once and hands them plain values, so that a replay of a journal
makes the same decisions.
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
    """Return the user's store: `SCHEDBED_PROFILES`, else in the user's data folder. It need not exist."""
    named = os.environ.get("SCHEDBED_PROFILES")
    if named:
        return Path(named)
    data = os.environ.get("XDG_DATA_HOME")
    return (Path(data) if data else Path.home() / ".local" / "share") / "schedbed" / "profiles.sqlite"


def named_store(name: str) -> Path:
    """Return the store of that name: `store` is the user's own, anything else a path."""
    return default_store() if name == "store" else Path(name)


def frozen_store(name: str, copy: Path) -> str:
    """Return a copy of a store for a run that may last, by its path; `none` when there is nothing to copy.

    Others may write to the store meanwhile, and a JobTracker that restarts must read what it read before.
    """
    if name == "none" or not named_store(name).is_file():
        return "none"
    try:
        with closing(sqlite3.connect(named_store(name))) as source, closing(sqlite3.connect(copy)) as target:
            source.backup(target)
    except sqlite3.DatabaseError:
        return name  # whoever reads it says what is wrong with it
    return str(copy)


class ProfileStore:
    """One file, opened for each call. `kind` says what the values mean (resources, demand, ...), `name` whose they are.

    BadInput when the file is not a profile store.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def load(self, kind: str, name: str) -> dict[str, Any] | None:
        """Return the values saved last, None when there are none."""
        return self.load_all(kind).get(name)

    def load_all(self, kind: str) -> dict[str, dict[str, Any]]:
        """Return all values of that kind by name, sorted; empty when the file does not exist."""
        if not self.path.exists():
            return {}
        with self._open() as db:
            rows = db.execute("SELECT name, profile FROM profiles WHERE kind = ? ORDER BY name", (kind,))
            return {name: json.loads(values) for name, values in rows}

    def save(self, kind: str, name: str, values: Mapping[str, Any], *, overwrite: bool = True) -> bool:
        """Keeps JSON values; False when there are some already and `overwrite` is off."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        verb = "REPLACE" if overwrite else "IGNORE"
        with self._open() as db:
            done = db.execute(
                f"INSERT OR {verb} INTO profiles (kind, name, profile) VALUES (?, ?, ?)",
                (kind, name, json.dumps(dict(values), sort_keys=True)),
            )
            return done.rowcount > 0

    def clear(self, kind: str, name: str) -> None:
        """Forgets the values, if there are any."""
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
