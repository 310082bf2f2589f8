"""The tables of the report, as objects that templates convert to HTML."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schedbed.deploy.results.comparison import (
    FIGURES,
    QUEUE_FIGURES,
    Figure,
    Policies,
    best,
    differs_from_first,
    leaf_of,
    queues_of,
    ratio,
    seconds,
)
from schedbed.deploy.results.measures.row_values import row_values
from schedbed.deploy.results.measures.waits import SIZES
from schedbed.deploy.results.metrics import RunTables
from schedbed.deploy.results.page import templates
from schedbed.deploy.results.table import interval, notes
from schedbed.tasks.specs import id_key
from schedbed.tasks.units import format_rate

Row = Mapping[str, Any]
"""A row of the table of jobs."""

ROWS_MAX = 200
REASONS_SHOWN = 14
NONE = "–"

GroupColumn = tuple[str, tuple[str, ...], tuple[str, ...], Callable[[float], str]]
"""A heading, the path to a policy's groups, the path from a group to a leaf, and the format of the mean."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCell:
    """A cell of a table: `kind` is a CSS class, `difference` that to the value of the run's first policy."""

    text: str
    kind: str = ""
    interval: str = ""
    difference: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRow:
    """A row of a table: a heading and its cells."""

    head: str
    cells: Sequence[TableCell]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageTable:
    """A table whose first `text_columns` columns after the row headings are aligned left. `notes` are below it."""

    heads: Sequence[str]
    rows: Sequence[TableRow]
    text_columns: int = 0
    notes: Sequence[str] = ()


def comparison_html(summary: Mapping[str, Any]) -> str:
    """Return the table that compares the policies as HTML for a notebook."""
    return templates.table(comparison(summary))


def comparison(summary: Mapping[str, Any]) -> PageTable:
    """Return a row per metric and a column per policy: mean, interval, paired difference to the first policy."""
    policies: Policies = summary["policies"]
    rows: list[TableRow] = []
    for figure in FIGURES:
        won = best(summary, figure)
        cells = [_figure_cell(figure, policies, name, name == won) for name in policies]
        if any(cell.text != NONE for cell in cells):
            unit = f" [{figure.unit}]" if figure.unit else ""
            rows.append(TableRow(head=figure.label + unit, cells=cells))
    trust = [
        TableCell(text="yes") if p["fidelity"]["trusted"] else TableCell(text="no", kind="bad")
        for p in policies.values()
    ]
    rows.append(TableRow(head="trusted", cells=trust))
    return PageTable(heads=["", *policies], rows=rows, notes=notes(summary))


def _figure_cell(figure: Figure, policies: Policies, name: str, won: bool) -> TableCell:
    leaf = leaf_of(policies[name], figure.path)
    if leaf is None or leaf["mean"] is None:
        return TableCell(text=NONE)
    difference = ""
    paired = leaf_of(policies[name].get("paired", {}), figure.path)
    if paired is not None and paired["mean"]:
        sign, star = (
            "+" if paired["mean"] > 0 else "−",
            " *" if differs_from_first(policies, name, figure) else "",
        )
        difference = f"{sign}{figure.show(abs(paired['mean']))}{star}"
    return TableCell(
        text=figure.show(leaf["mean"]),
        kind="best" if won else "",
        interval=" ".join(interval(figure, leaf)),
        difference=difference,
    )


def users(policies: Policies, limit: int = ROWS_MAX) -> PageTable:
    """Return the table of users, with at most `limit` rows."""
    names = sorted({user for p in policies.values() for user in p.get("makespan_s", {}).get("per_user", {})})
    shown = (
        ("makespan [s]", ("makespan_s", "per_user"), (), seconds),
        *_of_jobs("per_user"),
        ("fair-share ratio", ("fair_share_ratio", "per_user"), (), ratio),
    )
    return _groups("user", names[:limit], policies, shown, notes=_cut(len(names), limit, "users"))


def queues(policies: Policies, limit: int = ROWS_MAX) -> PageTable:
    """Return the table of queues, with at most `limit` rows; empty with one queue."""
    names = queues_of(policies)
    shown = [(label, ("per_queue",), place, form) for label, place, form in QUEUE_FIGURES]
    return _groups("queue", names[:limit], policies, shown, notes=_cut(len(names), limit, "queues"))


def sizes(policies: Policies) -> PageTable:
    present = {size for p in policies.values() for size in p.get("completion_s", {}).get("per_size", {})}
    return _groups("jobs", [size for size in SIZES if size in present], policies, _of_jobs("per_size"), SIZES)


def _of_jobs(group: str) -> tuple[GroupColumn, ...]:
    times = (("completion", ("completion_s", group)), ("wait", ("wait_s", "jobs", group)))
    return tuple(
        (f"{what}, {kind} [s]", path, (kind,), seconds) for what, path in times for kind in ("median", "p95")
    )


def _groups(
    head: str,
    names: Sequence[str],
    policies: Policies,
    shown: Sequence[GroupColumn],
    most: Mapping[str, float] | None = None,
    notes: Sequence[str] = (),
) -> PageTable:
    """Return a row per user or size class and, per metric in `shown`, a column per policy.

    `most` maps each size class to its largest number of tasks, which is added to the row's heading.
    """
    rows: list[TableRow] = []
    for name in names:
        leaves = [
            (leaf_of(policy, (*path, name, *rest)), show)
            for _, path, rest, show in shown
            for policy in policies.values()
        ]
        cells = [
            TableCell(text=show(leaf["mean"]) if leaf and leaf["mean"] is not None else NONE)
            for leaf, show in leaves
        ]
        limit = f" (to {most[name]} tasks)" if most and most[name] < math.inf else ""
        rows.append(TableRow(head=name + limit, cells=cells))
    heads = [head, *(f"{what}: {policy}" for what, *_ in shown for policy in policies)]
    return PageTable(heads=heads, rows=rows, notes=notes)


def deadlines(shown: Sequence[RunTables], limit: int = ROWS_MAX) -> PageTable:
    """Return how early or late jobs with a deadline finished, in seconds, in at most `limit` rows."""
    found, count = _by_job(shown, limit, "deadline")
    rows = [
        TableRow(
            head=_job_name(first),
            cells=[_words(first["user"]), TableCell(text=seconds(first["deadline"])), *map(_margin, each)],
        )
        for first, each in found
    ]
    heads = ["job", "user", "deadline [s]", *(mine.policy for mine in shown)]
    return PageTable(heads=heads, rows=rows, text_columns=1, notes=_cut(count, limit, "jobs"))


def _margin(job: Row | None) -> TableCell:
    if job is None:
        return TableCell(text=NONE)
    if job["finish"] != job["finish"]:
        return TableCell(text=f"{job['state']}, not finished", kind="bad")
    if job["state"] != "succeeded":
        return TableCell(text=str(job["state"]), kind="bad")
    left = job["deadline"] - job["finish"]
    return (
        TableCell(text=seconds(left))
        if left >= 0
        else TableCell(text=f"late by {seconds(-left)}", kind="bad")
    )


def jobs(shown: Sequence[RunTables], limit: int = ROWS_MAX) -> PageTable:
    """Return the table of jobs, with at most `limit` rows."""
    found, count = _by_job(shown, limit)
    heads = ["job", "user", "application", "maps", "reduces", "submitted [s]"]
    heads += [f"completion [s]: {mine.policy}" for mine in shown]
    rows = [
        TableRow(
            head=_job_name(first),
            cells=[
                _words(first["user"]),
                _words(first["app"]),
                TableCell(text=str(first["maps"])),
                TableCell(text=str(first["reduces"])),
                TableCell(text=seconds(first["submit"])),
                *map(_completion, each),
            ],
        )
        for first, each in found
    ]
    return PageTable(heads=heads, rows=rows, text_columns=2, notes=_cut(count, limit, "jobs"))


def _completion(job: Row | None) -> TableCell:
    if job is None:
        return TableCell(text=NONE)
    if job["state"] != "succeeded" or job["finish"] != job["finish"]:
        return TableCell(text=str(job["state"]), kind="bad")
    return TableCell(text=seconds(job["finish"] - job["submit"]))


def decisions(counted: Mapping[str, Mapping[tuple[str, str], int]], limit: int = REASONS_SHOWN) -> PageTable:
    """Return the answers and at most `limit` reasons, the most frequent first, from `offers.sums` by policy."""
    totals: Counter[tuple[str, str]] = Counter()
    for mine in counted.values():
        totals.update(mine)
    ordered = sorted(totals, key=lambda key: (-totals[key], key))
    rows = [
        TableRow(
            head=f"{answer}: {reason}" if reason else answer,
            cells=[TableCell(text=f"{mine.get((answer, reason), 0):,}") for mine in counted.values()],
        )
        for answer, reason in ordered[:limit]
    ]
    if ordered[limit:]:
        rest = [
            TableCell(text=f"{sum(mine.get(key, 0) for key in ordered[limit:]):,}")
            for mine in counted.values()
        ]
        rows.append(TableRow(head=f"{len(ordered) - limit} other reasons", cells=rest))
    rows.append(
        TableRow(head="all", cells=[TableCell(text=f"{sum(mine.values()):,}") for mine in counted.values()])
    )
    return PageTable(heads=["answer: reason", *counted], rows=rows)


def fidelity(policies: Policies) -> PageTable:
    """Return, by policy, the share of time with a saturated host CPU, and declared and measured rates."""
    heads = ["", "host CPU saturated [% of time]"]
    heads += [f"{r}: busiest node's 5 s, achieved of declared" for r in ("CPU", "disk", "network")]
    rows: list[TableRow] = []
    for name, policy in policies.items():
        found = policy["fidelity"]
        saturated = found["host_cpu_saturated"]
        cells = [TableCell(text="not sampled" if saturated is None else f"{100 * saturated:.1f}")]
        cells += [TableCell(text=_limit(found["limits"].get(r))) for r in ("cpu", "disk", "network")]
        rows.append(TableRow(head=name, cells=cells))
    return PageTable(heads=heads, rows=rows)


def _limit(limit: Mapping[str, Any] | None) -> str:
    if not limit or limit["achieved_max"] is None:
        return NONE
    share = limit["achieved_max"] / limit["configured"]
    told = f"{100 * share:.0f} % of {_rate(limit['configured'], limit['unit'])} ({limit['node']})"
    if limit.get("enforced"):
        told += f"; held by {limit['enforced']}"
    return told + (f", counted by the {limit['counted']}" if limit.get("counted") else "")


def _rate(value: float, unit: str) -> str:
    return f"{value:g} {unit}" if unit == "host cores" else format_rate(value)


def _by_job(
    shown: Sequence[RunTables], limit: int, having: str | None = None
) -> tuple[list[tuple[Row, Sequence[Row | None]]], int]:
    """Return the first `limit` jobs by submission (with a value in column `having`), and the number of all.

    A job comes with its row in each run, None if it is not in that run.
    """
    import pandas as pd

    if not shown:
        return [], 0
    all_rows = [mine.jobs for mine in shown]
    wanted = all_rows if having is None else [rows[rows[having].notna()] for rows in all_rows]
    known = pd.concat([rows[["job", "submit"]] for rows in wanted]).drop_duplicates("job")
    early = known.nsmallest(limit, "submit", keep="all")
    ordered = sorted(zip(early["submit"], early["job"], strict=True), key=lambda at: (at[0], *id_key(at[1])))
    jobs = [job for _, job in ordered[:limit]]
    tables = [{row["job"]: row for row in row_values(rows[rows["job"].isin(jobs)])} for rows in all_rows]
    found: list[tuple[Row, Sequence[Row | None]]] = []
    for job in jobs:
        each = [table.get(job) for table in tables]
        first = next(row for row in each if row and (having is None or row[having] == row[having]))
        found.append((first, each))
    return found, len(known)


def _job_name(row: Row) -> str:
    return f"{row['name']} ({row['job']})"


def _words(value: object) -> TableCell:
    return TableCell(text=str(value), kind="text")


def _cut(total: int, limit: int, what: str) -> tuple[str, ...]:
    return (f"The first {limit} of {total} {what}.",) if total > limit else ()
