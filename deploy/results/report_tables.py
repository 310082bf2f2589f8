"""The report's tables as HTML: policies, users, deadlines, jobs and fidelity. All text is escaped here."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from schedbed.deploy.results.comparison import Policies, best, is_told_apart
from schedbed.deploy.results.measures.waits import SIZES
from schedbed.deploy.results.metrics import RunTables
from schedbed.deploy.results.shown_figures import FIGURES, Figure, leaf_of, ratio, seconds
from schedbed.deploy.results.table import interval, notes
from schedbed.tasks.specs import id_key
from schedbed.tasks.units import format_rate

if TYPE_CHECKING:
    import pandas as pd

ROWS_MAX = 200

GroupColumn = tuple[str, tuple[str, ...], tuple[str, ...], Callable[[float], str]]
"""A heading, the path to the groups of a policy, the path from a group to a leaf, and how its mean is shown."""


def comparison(summary: Mapping[str, Any]) -> str:
    """Return figures down, policies across: mean, interval, and the paired difference to the first policy."""
    policies: Policies = summary["policies"]
    body: list[str] = []
    for figure in FIGURES:
        won = best(summary, figure)
        cells = [_figure_cell(figure, policies, name, name == won) for name in policies]
        if any("–" not in cell for cell in cells):
            unit = f" [{figure.unit}]" if figure.unit else ""
            body.append(f"<th>{escape(figure.label + unit)}</th>{''.join(cells)}")
    trust = [_td("yes") if p["fidelity"]["trusted"] else _td("no", "bad") for p in policies.values()]
    body.append(f"<th>trusted</th>{''.join(trust)}")
    said = "".join(f'<p class="note">{escape(note)}</p>' for note in notes(summary))
    return _table(["", *policies], body) + said


def _figure_cell(figure: Figure, policies: Policies, name: str, won: bool) -> str:
    leaf = leaf_of(policies[name], figure.path)
    if leaf is None or leaf["mean"] is None:
        return _td("–")
    text = escape(figure.show(leaf["mean"]))
    if shown := interval(figure, leaf):
        text += f'<span class="ci">{escape(" ".join(shown))}</span>'
    paired = leaf_of(policies[name].get("paired", {}), figure.path)
    if paired is not None and paired["mean"]:
        sign, star = "+" if paired["mean"] > 0 else "−", " *" if is_told_apart(policies, name, figure) else ""
        text += f'<span class="diff">{sign}{escape(figure.show(abs(paired["mean"])))}{star}</span>'
    return f'<td class="best">{text}</td>' if won else f"<td>{text}</td>"


def users(policies: Policies, limit: int = ROWS_MAX) -> str:
    """Return makespan, mean completion and wait, and fair-share ratio of every user under every policy."""
    names = sorted({user for p in policies.values() for user in p.get("makespan_s", {}).get("per_user", {})})
    shown = (
        ("makespan [s]", ("makespan_s", "per_user"), (), seconds),
        *_of_jobs("per_user"),
        ("fair-share ratio", ("fair_share_ratio", "per_user"), (), ratio),
    )
    return _groups("user", names[:limit], policies, shown) + _cut(len(names), limit, "users")


def sizes(policies: Policies) -> str:
    """Return mean completion and wait of jobs by their number of maps and reduces under every policy."""
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
) -> str:
    """Return a row a group, and for each of `shown` a column a policy; `most` has the most tasks of a size."""
    body: list[str] = []
    for name in names:
        leaves = [
            (leaf_of(policy, (*path, name, *rest)), show)
            for _, path, rest, show in shown
            for policy in policies.values()
        ]
        cells = [
            _td(show(leaf["mean"]) if leaf and leaf["mean"] is not None else "–") for leaf, show in leaves
        ]
        limit = f" (to {most[name]} tasks)" if most and most[name] < math.inf else ""
        body.append(f"<th>{escape(name + limit)}</th>{''.join(cells)}")
    return _table([head, *(f"{what}: {policy}" for what, *_ in shown for policy in policies)], body)


def deadlines(shown: Sequence[RunTables], limit: int = ROWS_MAX) -> str:
    """Per job with a deadline how long before (or after) it each policy finished; empty when there is none."""
    rows = _by_job(shown, lambda job: job["deadline"] == job["deadline"])
    if not rows:
        return ""
    heads = ["job", "user", "deadline [s]", *(mine.policy for mine in shown)]
    body = [
        f"<th>{escape(_job_name(first))}</th>{_td(first['user'], 'text')}{_td(seconds(first['deadline']))}"
        + "".join(_margin(found) for found in each)
        for first, each in rows[:limit]
    ]
    note = '<p class="note">Seconds before the deadline at which the job finished; late ones are marked.</p>'
    table = f'<div class="scroll">{_table(heads, body, text=1)}</div>{_cut(len(rows), limit, "jobs")}'
    return f"<section><h2>Deadlines</h2>{note}{table}</section>"


def _margin(job: Mapping[str, Any] | None) -> str:
    if job is None:
        return _td("–")
    if job["finish"] != job["finish"]:
        return _td(f"{job['state']}, not finished", "bad")
    if job["state"] != "succeeded":
        return _td(str(job["state"]), "bad")
    left = job["deadline"] - job["finish"]
    return _td(f"{seconds(left)}") if left >= 0 else _td(f"late by {seconds(-left)}", "bad")


def jobs(shown: Sequence[RunTables], limit: int = ROWS_MAX) -> str:
    """Every job with its size and its completion time under each policy, folded away when there are many."""
    rows = _by_job(shown, lambda job: True)
    heads = ["job", "user", "application", "maps", "reduces", "submitted [s]"]
    heads += [f"completion [s]: {mine.policy}" for mine in shown]
    body = [
        f"<th>{escape(_job_name(first))}</th>{_td(first['user'], 'text')}{_td(first['app'], 'text')}"
        f"{_td(first['maps'])}{_td(first['reduces'])}{_td(seconds(first['submit']))}"
        + "".join(_completion(found) for found in each)
        for first, each in rows[:limit]
    ]
    table = f'<div class="scroll">{_table(heads, body, text=2)}</div>{_cut(len(rows), limit, "jobs")}'
    return (
        f"<details{' open' if len(rows) <= 30 else ''}><summary>{len(rows)} jobs</summary>{table}</details>"
    )


def _completion(job: Mapping[str, Any] | None) -> str:
    if job is None:
        return _td("–")
    if job["state"] != "succeeded" or job["finish"] != job["finish"]:
        return _td(str(job["state"]), "bad")
    return _td(seconds(job["finish"] - job["submit"]))


def fidelity(policies: Policies) -> str:
    """Per policy how busy the host was, and of each resource the declared and the achieved rate."""
    heads = ["", "host CPU saturated [% of time]"]
    heads += [f"{r}: busiest node's 5 s, achieved of declared" for r in ("CPU", "disk", "network")]
    body: list[str] = []
    for name, policy in policies.items():
        found = policy["fidelity"]
        saturated = found["host_cpu_saturated"]
        cells = [_td("not sampled" if saturated is None else f"{100 * saturated:.1f}")]
        cells += [_td(_limit(found["limits"].get(r))) for r in ("cpu", "disk", "network")]
        body.append(f"<th>{escape(name)}</th>{''.join(cells)}")
    return _table(heads, body)


def _limit(limit: Mapping[str, Any] | None) -> str:
    if not limit or limit["achieved_max"] is None:
        return "–"
    share = limit["achieved_max"] / limit["configured"]
    told = f"{100 * share:.0f} % of {_rate(limit['configured'], limit['unit'])} ({limit['node']})"
    if limit.get("enforced"):
        told += f"; held by {limit['enforced']}"
    return told + (f", counted by the {limit['counted']}" if limit.get("counted") else "")


def _rate(value: float, unit: str) -> str:
    return f"{value:g} {unit}" if unit == "host cores" else format_rate(value)


def _by_job(
    shown: Sequence[RunTables], wanted: Any
) -> list[tuple[Mapping[str, Any], list[Mapping[str, Any] | None]]]:
    """Each wanted job once, in order of submission, with its row under every policy."""
    tables = [_records(mine.jobs) for mine in shown]
    firsts: dict[str, Mapping[str, Any]] = {}
    for table in tables:
        for job, row in table.items():
            if wanted(row):
                firsts.setdefault(job, row)
    ordered = sorted(firsts.values(), key=lambda row: (row["submit"], *id_key(row["job"])))
    return [(first, [table.get(first["job"]) for table in tables]) for first in ordered]


def _records(data: pd.DataFrame) -> dict[str, Mapping[str, Any]]:
    return {str(row["job"]): {str(k): v for k, v in row.items()} for row in data.to_dict("records")}


def _job_name(row: Mapping[str, Any]) -> str:
    return f"{row['name']} ({row['job']})"


def _td(value: object, kind: str = "") -> str:
    return f'<td class="{kind}">{escape(str(value))}</td>' if kind else f"<td>{escape(str(value))}</td>"


def _table(heads: Sequence[str], body: Iterable[str], text: int = 0) -> str:
    """`text` columns after the first are aligned left."""
    cells = [
        f'<th scope="col"{" class=text" if 0 < i <= text else ""}>{_breakable(h)}</th>'
        for i, h in enumerate(heads)
    ]
    rows = "".join(f"<tr>{row}</tr>" for row in body)
    return f"<table><thead><tr>{''.join(cells)}</tr></thead><tbody>{rows}</tbody></table>"


def _breakable(name: str) -> str:
    """A policy's SPEC may wrap between its parameters."""
    return escape(name).replace(",", ",<wbr>").replace(":", ":<wbr>")


def _cut(total: int, limit: int, what: str) -> str:
    return f'<p class="note">The first {limit} of {total} {what}.</p>' if total > limit else ""
