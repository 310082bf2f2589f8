"""Builds small result tables from rows that name only the columns a test needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from schedbed.cluster.spec import NodeSpec
from schedbed.deploy.results.metrics import RunTables
from schedbed.scheduler.history import COLUMNS, FLOAT, INT, frame

if TYPE_CHECKING:
    import pandas as pd

DEFAULTS: dict[str, dict[str, Any]] = {
    "jobs": {
        "job": "job_0001",
        "name": "wc",
        "user": "ana",
        "queue": "q",
        "app": "sort",
        "state": "succeeded",
    },
    "attempts": {"job": "job_0001", "kind": "map", "node": "n1", "rack": "a", "state": "succeeded"},
    "heartbeats": {"node": "n1"},
    "decisions": {"node": "n1", "job": "job_0001", "kind": "map", "answer": "skip", "reason": ""},
    "blocks": {},
    "faults": {},
}
NODE = NodeSpec(
    node="n1",
    rack="a",
    cores=2,
    core_speed=0.1,
    memory_bytes=512 << 20,
    disk_bps=4e7,
    network_bps=1.25e7,
    map_slots=2,
    reduce_slots=1,
)
"""A declared node of a live run."""
NODES: tuple[dict[str, Any], ...] = tuple(
    {
        "node": name,
        "rack": "a",
        "cores": 2,
        "core_speed": 0.5,
        "memory_bytes": 2**29,
        "disk_bps": 40e6,
        "network_bps": 12.5e6,
        "map_slots": 1,
        "reduce_slots": 1,
    }
    for name in ("n1", "n2")
)


def table(name: str, rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return a result table as a data frame.

    Columns missing from a row get the table's default, 0 or a missing value.
    """
    made: list[tuple[Any, ...]] = []
    for number, row in enumerate(rows):
        values: dict[str, Any] = {
            column: 0 if kind == INT else None if kind == FLOAT else False if kind == "bool" else None
            for column, kind in COLUMNS[name].items()
        }
        values |= DEFAULTS[name]
        if name == "attempts":
            values |= {
                "task": f"job_0001_m_{number:06d}",
                "attempt": f"job_0001_m_{number:06d}_0",
                "cpu_s": 0.0,
            }
        made.append(tuple((values | dict(row)).values()))
    return frame(name, made, "fifo", 0)


def run_of(**tables: Sequence[Mapping[str, Any]]) -> RunTables:
    """Return the result tables of a run on two nodes with one map slot and one reduce slot each.

    `tables` contains the rows of tables by name; other tables are empty.
    """
    frames = {name: table(name, tables.get(name, ())) for name in COLUMNS}
    return RunTables("fifo", 0, frames, NODES)


def rows(table: str, *given: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """Return rows of a table as tuples, in the JobTracker's format; missing columns are None."""
    return [tuple(each.get(column) for column in COLUMNS[table]) for each in given]
