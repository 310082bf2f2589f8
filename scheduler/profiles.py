"""The profile store: an SQLite file with measurements of jobs in earlier runs (profiles).

A profile is found by its kind, such as `demand`, and by the name of what was measured, such as a job name.
Policies never open the store. The registry reads the store once and passes plain values to policies, so that
a replay of the journal makes the same decisions.
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
    """Return the path of the user's profile store. The file may not exist.

    The path is the environment variable `SCHEDBED_PROFILES` if set, else a file in the user's data folder.
    """
    named = os.environ.get("SCHEDBED_PROFILES")
    if named:
        return Path(named)
    data = os.environ.get("XDG_DATA_HOME")
    return (Path(data) if data else Path.home() / ".local" / "share") / "schedbed" / "profiles.sqlite"


def named_store(name: str) -> Path:
    """Return the path of a profile store: the user's own one if `name` is `store`, else `name` as a path."""
    return default_store() if name == "store" else Path(name)


def frozen_store(name: str, copy: Path) -> str:
    """Copy the profile store `name` to the path `copy`, and return that path as text.

    `name` is `store`, `none` or a path. If no such store exists, return `none` without a copy. If the store
    is damaged, return `name`, so that the error is reported when the store is read. A run needs a copy
    because other processes may write to the store, and a restarted JobTracker must read the same values
    again.
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
    """A store of values that were measured in earlier runs, such as the resource demands of a job.

    The SQLite file `path` is opened at each method call. `kind` is the type of the values, such as `demand`,
    and `name` is what the values describe, such as a job name. Every method raises BadInput if the file is
    not a profile store.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def load(self, kind: str, name: str) -> dict[str, Any] | None:
        """Return the values last saved for this kind and name, or None if there are none."""
        return self.load_all(kind).get(name)

    def load_all(self, kind: str) -> dict[str, dict[str, Any]]:
        """Return a dictionary from name to values for this kind, sorted by name.

        The dictionary is empty if the file does not exist.
        """
        if not self.path.exists():
            return {}
        with self._open() as db:
            rows = db.execute("SELECT name, profile FROM profiles WHERE kind = ? ORDER BY name", (kind,))
            return {name: json.loads(values) for name, values in rows}

    def save(self, kind: str, name: str, values: Mapping[str, Any], *, overwrite: bool = True) -> bool:
        """Save JSON values for this kind and name. Return whether they were saved.

        If `overwrite` is false, existing values are not replaced.
        """
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
