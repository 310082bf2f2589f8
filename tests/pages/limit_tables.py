"""Tables of the resources that cooperating and hostile code get under limits, from `schedbed doctor --hostile
--save`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from schedbed.deploy.doctor.measured_limits import LimitsFile, amounts
from schedbed.deploy.doctor.trials import BREAKS, HOLDS, TRUSTING, UNLIMITED, UNTRIED, LimitRow

WORST_FIRST = (BREAKS, UNTRIED, UNLIMITED, TRUSTING, HOLDS)
RESOURCES = ("cpu", "memory", "disk", "network", "processes")


def load_all(folder: Path) -> Mapping[str, LimitsFile]:
    """Return a dictionary from the names of the result files in `folder` to their contents.

    A name is also that of the table's place in the page.
    """
    return {path.stem: LimitsFile.load(path) for path in sorted(folder.glob("*.json"))}


def table(kept: LimitsFile) -> str:
    """Return a result file as Markdown: how it was measured, and a row for each limit and kind of code."""
    lines = [
        f"Measured on {kept.date}. Host: {kept.host}. Command: `{kept.command}`.\n",
        "| limit | an attempt that | declared | gets | by | counted by | |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in sorted(kept.rows, key=lambda row: (RESOURCES.index(row.resource), row.hostile)):
        verdict = f"{row.verdict}: {row.note}" if row.note else row.verdict
        does = row.code if row.hostile else f"**{row.code}**"
        cells = (row.resource, does, *amounts(row), row.by, row.witness, verdict)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def short_table(files: Mapping[str, LimitsFile]) -> str:
    """Return a Markdown table with a row for each resource.

    A cell has the worst result for a kind of machines and a kind of code, as a share of the declared amount.
    """
    heads = [f"{name}: cooperating | {name}: hostile, at most" for name in files]
    lines = ["| limit | " + " | ".join(heads) + " |", "|---" * (1 + 2 * len(files)) + "|"]
    for resource in RESOURCES[:4]:
        cells = [resource]
        for kept in files.values():
            rows = [row for row in kept.rows if row.resource == resource]
            cells += [_cell([row for row in rows if row.hostile is hostile]) for hostile in (False, True)]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _cell(rows: list[LimitRow]) -> str:
    """Return the table cell of the worst row: the row with the worst verdict, and among these the furthest
    from its limit.
    """
    judged = [row for row in rows if row.verdict in WORST_FIRST]
    if not judged:
        return "not measured"
    worst = min(judged, key=lambda row: (WORST_FIRST.index(row.verdict), -_distance(row)))
    verdict = f", {worst.by.partition(' (')[0]}" if worst.verdict == HOLDS else f": {worst.verdict}"
    return f"{_share(worst):.0%}{verdict}"


def _distance(row: LimitRow) -> float:
    """Return how far a result is from its declaration. For hostile code, only an excess counts."""
    return _share(row) if row.hostile else abs(_share(row) - 1)


def _share(row: LimitRow) -> float:
    return row.achieved / row.declared if row.achieved and row.declared else 0.0
