"""docs/reference/tables.md: the files of a results folder and each column, taken from the record types.

The text of a column is the comment after it in `scheduler/core/rows.py` or `scheduler/history.py`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from schedbed.scheduler.core.rows import AttemptRow, DecisionRow, JobRow
from schedbed.scheduler.history import COLUMNS

ROOT = Path(__file__).parents[2]
HEAD = """# Tables and files

A run writes into the folder of `--out`:

| file | holds |
|---|---|
| `run.json` | the resolved scenario, versions, host, seed, start, planned jobs, rows and sha256 of each table |
| `summary.json` | the figures of each policy: means, intervals, paired differences ([statistics](../statistics.md)) |
| `report.html` | the comparison as one page that needs no network; `schedbed report` makes it again |
| `timeline.json` | all attempts in Chrome's trace format, for [Perfetto](https://ui.perfetto.dev) |
| `*.parquet` | the tables below |
| `outputs/` | the jobs' outputs, with `--keep-outputs` |

From Python the tables are pandas frames: `schedbed.run(...).jobs`, or `pandas.read_parquet("DIR/jobs.parquet")`.
Each table begins with `policy` (the SPEC as given) and `repeat` (from 0). Times are seconds since the run's start,
sizes bytes, CPU time core-seconds of the host. With a `stretch` all times are emulated. What is missing is NaN or
`<NA>`.
"""
ROWS = {
    "jobs": ("A row for each job.", JobRow),
    "attempts": ("A row for each attempt that has ended.", AttemptRow),
    "heartbeats": (
        "A row for each heartbeat that was answered. A simulation that may skip heartbeats has only the rows of "
        "those that report the end of an attempt or start a task, and of the start and the end of the run.",
        None,
    ),
    "decisions": (
        "A row for each offer of a slot and its answer. A job that declines offers has one row until it launches a "
        "task or declines for another reason.",
        DecisionRow,
    ),
    "blocks": ("A row for the life of each replica of a block.", None),
    "faults": ("A row for each injected fault.", None),
}
TYPES = {"str": "text", "float64": "number", "int64": "whole number", "bool": "true or false"}


def page() -> str:
    """Return the Markdown text of docs/reference/tables.md. Raise ValueError if a column has no comment."""
    parts = [HEAD]
    for table, columns in COLUMNS.items():
        about, row = ROWS[table]
        said = (
            _comments("scheduler/core/rows.py", row.__name__)
            if row
            else _comments("scheduler/history.py", table)
        )
        parts += [f"## {table}.parquet\n", f"{about}\n", "| column | type | |", "|---|---|---|"]
        for column, kind in columns.items():
            if not said.get(column):
                raise ValueError(f"{table}.{column} has no comment that says what it is")
            parts.append(f"| `{column}` | {TYPES[kind]} | {said[column]} |")
        parts.append("")
    return "\n".join(parts)


def _comments(file: str, name: str) -> dict[str, str]:
    """Return a dictionary from columns to the comments after them, for the row class or table `name` in
    `file`.
    """
    text = (ROOT / file).read_text(encoding="utf-8")
    lines = text.splitlines()
    return {column: lines[line - 1].partition("  # ")[2] for column, line in _places(ast.parse(text), name)}


def _places(tree: ast.Module, name: str) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name == name:
            for part in node.body:
                if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
                    yield part.target.id, part.end_lineno or 0
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == name and isinstance(value, ast.Dict):
                    for column, kind in zip(value.keys, value.values, strict=True):
                        if isinstance(column, ast.Constant):
                            yield str(column.value), kind.end_lineno or 0
