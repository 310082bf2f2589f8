"""A cached reader for the tables of a finished run, one policy and repeat at a time."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedbed.deploy.results.measures.wait_causes import needed
from schedbed.deploy.results.measures.window import Window
from schedbed.deploy.results.metrics import RunTables, latest_s, select
from schedbed.deploy.results.runfile import RunFile
from schedbed.deploy.scenario.policies import guarantees
from schedbed.scheduler.history import RUN_COLUMNS, groups_by_run, read_table
from schedbed.tasks.errors import BadInput

if TYPE_CHECKING:
    import pandas as pd

VIEWED = ("jobs", "attempts", "decisions", "heartbeats", "faults")
"""The tables that views need. No metric uses the table of blocks."""

Key = tuple[str, int]  # policy and repeat


HELD_ROWS = 200_000
"""The number of table rows kept in memory, so that views do not read the same tables again.

Tables with at most a tenth of it are also kept with the rows of all runs.
"""


MANY_GROUPS = 32
"""The number of groups of decisions from which metrics and the timeline do without repeated ones."""
MEASURED = {
    "attempts": [
        "job",
        "task",
        "kind",
        "split_of",
        "node",
        "locality",
        "assigned",
        "start",
        "end",
        "state",
        "length",
        "cpu_s",
        "shuffle_end",
    ],
    "heartbeats": ["t", "node", "cpu_util", "disk_util", "net_util", "memory_bytes", "service_s"],
}
"""The columns that metrics need, of tables that have others as well."""


class Recorded:
    """Reads tables in a run's folder, and keeps recent ones, up to about HELD_ROWS rows.

    The methods raise BadInput if a table is missing or damaged.
    """

    def __init__(self, out_dir: Path | str, run: RunFile) -> None:
        self._out, self._run = Path(out_dir), run
        self._whole = {"jobs": read_table(out_dir, "jobs")}  # With the tables that are small.
        self._window = Window.of(run.scenario.get("measure"))
        self._held: dict[Key, RunTables] = {}
        self._rows = 0
        self._few: tuple[Key, RunTables] | None = None  # The last tables with few decisions.
        self._ends: dict[Key, float] = {}
        self._guarantees: dict[str, Mapping[str, float]] = {}
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
            self._held[key] = self._select(read, key)
        return self._held[key]

    def measured(self, policy: str, repeat: int) -> RunTables:
        """Return the tables for metrics: of very many decisions only those needed, and then few columns."""
        key = (policy, repeat)
        if not self.has_many_decisions(policy, repeat) or key in self._held:
            return self.tables(policy, repeat)
        if self._few is None or self._few[0] != key:
            self._few = None
            read = {
                table: self._read(table, key, MEASURED.get(table)) for table in VIEWED if table != "decisions"
            }
            drawn = drawn_nodes([str(node["node"]) for node in self._run.nodes], len(read["attempts"]))
            keep = partial(needed, drawn=drawn)
            read["decisions"] = self._read("decisions", key, keep=keep)
            self._few = key, self._select(read, key)
        return self._few[1]

    def has_many_decisions(self, policy: str, repeat: int) -> bool:
        """Return whether not all of the run's decisions are read, to save memory."""
        return len(self._groups_of("decisions", (policy, repeat))) >= MANY_GROUPS

    def of_nodes(self, policy: str, repeat: int, nodes: Sequence[str]) -> RunTables:
        """Return only some nodes' attempts, decisions and heartbeats.

        With very many decisions, `nodes` must be those that are drawn.
        """
        key, mine = (policy, repeat), self.measured(policy, repeat)
        tables = dict(mine.tables)
        if self._few is not None and self._few[1] is mine:  # Attempts and heartbeats lack columns.
            keep = partial(_is_of, nodes=nodes)
            tables |= self._select(
                {table: self._read(table, key, keep=keep) for table in MEASURED}, key
            ).tables
        for table in ("attempts", "decisions", "heartbeats"):
            tables[table] = tables[table][_is_of(tables[table], nodes)].reset_index(drop=True)
        return replace(mine, tables=tables)

    def _select(self, read: Mapping[str, pd.DataFrame], key: Key) -> RunTables:
        mine = select(read, self._run.nodes, *key, self._run.isolated_s, self._window)
        return replace(mine, recorded_s=self._run.recorded_s(key[0]), guarantees=self._promised(key[0]))

    def _promised(self, policy: str) -> Mapping[str, float]:
        """Return `guarantees` of the policy, which is built once; none of a policy of another version or program."""
        if policy not in self._guarantees:
            choices = (
                choice for choice in self._run.scenario.get("policies", ()) if choice["spec"] == policy
            )
            given = next((choice["given"] for choice in choices), policy)
            try:
                self._guarantees[policy] = guarantees(given)
            except BadInput:
                self._guarantees[policy] = {}
        return self._guarantees[policy]

    def _read(
        self,
        table: str,
        key: Key,
        columns: Sequence[str] | None = None,
        *,
        keep: Callable[[pd.DataFrame], Any] | None = None,
    ) -> pd.DataFrame:
        """Return a table's rows of one run, with categorical columns if it is large (but not jobs)."""
        rows = self._all_rows(table)
        if rows is None:
            groups = list(self._groups_of(table, key))
            return read_table(self._out, table, key, groups, columns=columns, coded=True, keep=keep)
        rows = rows[(rows["policy"] == key[0]) & (rows["repeat"] == key[1])]
        rows = (rows if keep is None else rows[keep(rows)]).reset_index(drop=True)
        return rows if columns is None else rows[[*RUN_COLUMNS, *columns]]

    def _all_rows(self, table: str) -> pd.DataFrame | None:
        """Return the rows of all runs of a table, which is read only once, or None if it is large."""
        if table not in self._whole:
            known = self._run.tables.get(table)
            if known is None or known.rows > HELD_ROWS // 10:
                return None
            self._whole[table] = read_table(self._out, table, coded=True)
        return self._whole[table]

    def _groups_of(self, table: str, key: Key) -> dict[int, int]:
        if table not in self._groups:
            runs = [(record.policy, record.repeat) for record in self._run.runs]
            self._groups[table] = groups_by_run(self._out, table, runs[0] if len(runs) == 1 else None)
        return self._groups[table].get(key, {})

    def count(self, table: str, policy: str, repeat: int) -> int:
        """Return a table's number of rows of one run."""
        return sum(self._groups_of(table, (policy, repeat)).values())

    def jobs(self, policy: str, repeat: int) -> RunTables:
        return self._select({"jobs": self._whole["jobs"]}, (policy, repeat))

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
        return self._read(table, key, [column])[column]


def _is_of(rows: pd.DataFrame, nodes: Sequence[str]) -> Any:
    return rows["node"].isin(nodes).to_numpy(bool)


# Assignment of attempts to lanes for drawing, where a lane is one slot of a node.
#
# Attempts do not record their slot, so it is derived from their times.

NODES_DRAWN = 200  # The most nodes drawn; a larger cluster is sampled evenly.
ATTEMPTS_DRAWN = 100_000  # Beyond about this number, fewer nodes are drawn.
TOUCH_S = 0.002  # The most overlap of the recorded times of two attempts in one slot.


def drawn_nodes(names: Sequence[str], attempts: int) -> list[str]:
    """Return the nodes to draw: if they or attempts are too many, some at equal distances."""
    few = min(NODES_DRAWN, ATTEMPTS_DRAWN * len(names) // max(1, attempts))
    count = min(len(names), max(1, few))
    return [names[place * len(names) // count] for place in range(count)]


def assign_lanes(attempts: pd.DataFrame, end_s: float) -> pd.DataFrame:
    """Return the attempts in order of time, with the additional columns `from_s`, `to_s` and `lane`.

    `lane` is the slot in which the attempt is drawn: the lowest free number, separate for the map and reduce
    slots of a node. An attempt is drawn from its start or else its assignment, to its end or else `end_s`.
    """
    data = attempts.copy()
    data["from_s"] = data["start"].fillna(data["assigned"]).fillna(data["end"]).fillna(0.0)
    data["to_s"] = data["end"].fillna(end_s).clip(lower=data["from_s"])
    data = data.sort_values(["from_s", "attempt"], kind="stable").reset_index(drop=True)
    free: dict[tuple[str, str], list[int]] = {}
    busy: dict[tuple[str, str], list[tuple[float, int]]] = {}
    lanes: list[int] = []
    for node, kind, start, end in zip(data["node"], data["kind"], data["from_s"], data["to_s"], strict=True):
        mine, running = free.setdefault((node, kind), []), busy.setdefault((node, kind), [])
        while running and running[0][0] <= start + TOUCH_S:
            heapq.heappush(mine, heapq.heappop(running)[1])
        lane = heapq.heappop(mine) if mine else len(running)
        heapq.heappush(running, (end, lane))
        lanes.append(lane)
    data["lane"] = lanes
    return data
