"""A cached reader for the tables of a finished run, one policy and repeat at a time."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from schedbed.deploy.results.lanes import drawn_nodes
from schedbed.deploy.results.measures.fewer_decisions import needed
from schedbed.deploy.results.measures.window import Window
from schedbed.deploy.results.metrics import RunTables, latest_s, select
from schedbed.deploy.results.runfile import RunFile
from schedbed.scheduler.history import groups_by_run, read_table

if TYPE_CHECKING:
    import pandas as pd

VIEWED = ("jobs", "attempts", "decisions", "heartbeats", "faults")
"""The tables that views need. No metric uses the table of blocks."""

Key = tuple[str, int]  # policy and repeat


HELD_ROWS = 200_000
"""The number of table rows kept in memory, so that views do not read the same tables again."""


MANY_GROUPS = 64
"""The number of groups of decisions from which metrics and the timeline do without repeated ones."""


class Recorded:
    """A reader for the tables in a run's folder. It keeps recently read tables, up to about HELD_ROWS rows.

    The methods raise BadInput if a table is missing or damaged.
    """

    def __init__(self, out_dir: Path | str, run: RunFile) -> None:
        self._out, self._run = Path(out_dir), run
        self._jobs = {"jobs": read_table(out_dir, "jobs")}
        self._window = Window.of(run.scenario.get("measure"))
        self._held: dict[Key, RunTables] = {}
        self._rows = 0
        self._few: tuple[Key, RunTables] | None = None  # The last tables with few decisions.
        self._ends: dict[Key, float] = {}
        self._groups: dict[str, dict[Key, dict[int, int]]] = {}  # By table: each run's rows by group of rows.

    def tables(self, policy: str, repeat: int) -> RunTables:
        """Return the tables of jobs, attempts, decisions, heartbeats and faults for one policy and repeat."""
        key = (policy, repeat)
        if key not in self._held:
            if self._rows > HELD_ROWS:
                self._held.clear()
                self._rows = 0
            read = {table: self._read(table, key) for table in VIEWED}
            self._rows += sum(map(len, read.values()))
            self._held[key] = select(
                read, self._run.nodes, policy, repeat, self._run.isolated_s, self._window
            )
        return self._held[key]

    def measured(self, policy: str, repeat: int) -> RunTables:
        """Return the tables of one policy and repeat that metrics and the timeline need.

        These are the same as those of `tables`, but of very many decisions only those that are needed.
        """
        key = (policy, repeat)
        groups = self._groups_of("decisions", key)
        if len(groups) < MANY_GROUPS or key in self._held:
            return self.tables(policy, repeat)
        if self._few is None or self._few[0] != key:
            self._few = None
            read = {table: self._read(table, key) for table in VIEWED if table != "decisions"}
            drawn = drawn_nodes([str(node["node"]) for node in self._run.nodes], len(read["attempts"]))
            keep = partial(needed, drawn=drawn)
            read["decisions"] = read_table(self._out, "decisions", key, list(groups), coded=True, keep=keep)
            tables = select(read, self._run.nodes, policy, repeat, self._run.isolated_s, self._window)
            self._few = key, tables
        return self._few[1]

    def _read(self, table: str, key: Key) -> pd.DataFrame:
        """Return the rows of a table for one policy and repeat, with categorical columns if it is large.

        The table of jobs has none.
        """
        return read_table(self._out, table, key, list(self._groups_of(table, key)), coded=table != "jobs")

    def _groups_of(self, table: str, key: Key) -> dict[int, int]:
        if table not in self._groups:
            self._groups[table] = groups_by_run(self._out, table)
        return self._groups[table].get(key, {})

    def count(self, table: str, policy: str, repeat: int) -> int:
        """Return the number of rows of one policy and repeat in a table."""
        return sum(self._groups_of(table, (policy, repeat)).values())

    def jobs(self, policy: str, repeat: int) -> RunTables:
        """Return only the table of jobs for one policy and repeat."""
        return select(self._jobs, self._run.nodes, policy, repeat, self._run.isolated_s, self._window)

    def end_s(self, policy: str, repeat: int) -> float:
        """Return the latest time in the tables of one policy and repeat, in seconds since the run's start."""
        key = (policy, repeat)
        if key not in self._ends:
            self._ends[key] = latest_s(lambda table, column: self._times(table, column, key))
        return self._ends[key]

    def _times(self, table: str, column: str, key: Key) -> pd.Series:
        if key in self._held:
            return self._held[key].tables[table][column]
        if table == "jobs":
            return self.jobs(*key).jobs[column]
        groups = list(self._groups_of(table, key))
        return read_table(self._out, table, key, groups, columns=[column], coded=True)[column]
