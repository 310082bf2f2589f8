"""Render the pages of docs that show results from the result files in docs/results.

    python -m tests.bench.pages                    # writes all of them
    python -m tests.bench.pages --claims DIR       # first keeps the claims of `schedbed reproduce --out DIR`

Figures are kept by `tests/bench/run --out docs/results/figures`, limits by `schedbed doctor quickstart --hostile
--machines KIND --save docs/results/limits/KIND.json`, when a policy pays by `python -m tests.pages.when_pays`. The text
around the tables stands in docs/results/PAGE.template.md; a line `{{NAME}}` there becomes a table.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.bench.figures import PIVOT, ROOT, Figure, ResultFile, pivoted, show
from tests.pages import claims, limit_tables, when_pays, whole_arena

RESULTS = ROOT / "docs" / "results"
PLACE = re.compile(r"^\{\{([\w/-]+)\}\}$", re.MULTILINE)
DO_NOT_EDIT = (
    "<!-- Written by `python -m tests.bench.pages` from docs/results. Edit there: a test compares. -->\n"
)


def performance(results: Path = RESULTS) -> str:
    """Return the text of docs/performance.md."""
    files = sorted((results / "figures").glob("*.json"))
    tables = {path.stem: table(ResultFile.load(path)) for path in files}
    tables["limits"] = limit_tables.short_table(limit_tables.load_all(results / "limits"))
    return fill((results / "performance.template.md").read_text(encoding="utf-8"), tables)


def reproduce(results: Path = RESULTS) -> str:
    """Return the text of docs/reproduce.md."""
    tables = claims.tables(results / "reproduce")
    return fill((results / "reproduce.template.md").read_text(encoding="utf-8"), tables)


def limits(results: Path = RESULTS) -> str:
    """Return the text of docs/limits.md."""
    files = limit_tables.load_all(results / "limits")
    tables = {name: limit_tables.table(kept) for name, kept in files.items()}
    return fill((results / "limits.template.md").read_text(encoding="utf-8"), tables)


def arena(results: Path = RESULTS) -> str:
    """Return the text of docs/arena.md."""
    kept = json.loads((results / "arena" / whole_arena.KEPT).read_text(encoding="utf-8"))
    tables = {"ranks": whole_arena.ranks(kept), "leaders": whole_arena.leaders(kept)}
    return fill((results / "arena.template.md").read_text(encoding="utf-8"), tables)


def policies(results: Path = RESULTS) -> str:
    """Return the text of docs/policies.md."""
    tables = {f"when/{name}": text for name, text in when_pays.tables(results / "when").items()}
    return fill((results / "policies.template.md").read_text(encoding="utf-8"), tables)


def fill(template: str, tables: Mapping[str, str]) -> str:
    """Return the template with each table in its place.

    Raise ValueError if a table has no place or a place has no table, so that no result is lost silently.
    """
    places = PLACE.findall(template)
    if sorted(places) != sorted(tables):
        raise ValueError(
            f"the template has places for {sorted(places)}, there are tables for {sorted(tables)}"
        )
    return DO_NOT_EDIT + PLACE.sub(lambda place: tables[place[1]].rstrip("\n"), template)


def table(kept: ResultFile) -> str:
    """Return a result file as Markdown: a heading, how the figures were measured, and a row per figure."""
    when = f"Carried over from {kept.carried_over}." if kept.carried_over else f"Measured on {kept.date}."
    how = "To measure again" if kept.carried_over else "Command"
    head = [f"### {kept.title}\n", f"{when} Host: {kept.host}. {how}: `{kept.command}`.\n"]
    if all(PIVOT in figure.name for figure in kept.figures):
        return "\n".join(head + pivot_lines(kept)) + "\n"
    lines = [
        *head,
        "| figure | target | median (min..max) | repeats | |",
        "|---|---|---|---|---|",
    ]
    for figure in kept.figures:
        name = f"{figure.name} ({figure.note})" if figure.note else figure.name
        lines.append(
            f"| {name} | {figure.target} | {figure.measured} | {figure.repeats} | {figure.verdict} |"
        )
    return "\n".join(lines) + "\n"


def pivot_lines(kept: ResultFile) -> list[str]:
    """Return the lines of a table with a row for each name before `PIVOT` and a column for each name after
    it.

    A cell is a median, followed by the target if the median misses it.
    """
    cells = pivoted(kept.figures)
    columns = list(dict.fromkeys(column for row in cells.values() for column in row))
    repeats = ", ".join(sorted({str(figure.repeats) for figure in kept.figures}))
    lines = [
        f"| medians of {repeats} runs | " + " | ".join(columns) + " |",
        "|---" * (len(columns) + 1) + "|",
    ]
    for row, mine in cells.items():
        texts = [_cell(mine[column]) if column in mine else "" for column in columns]
        lines.append(f"| {row} | " + " | ".join(texts) + " |")
    return lines


def _cell(figure: Figure) -> str:
    missed = f" (missed: {figure.target})" if figure.verdict == "missed" else ""
    return f"{show(figure.median)} {figure.unit}".rstrip() + missed


PAGES: Mapping[str, Callable[[], str]] = {
    "docs/performance.md": performance,
    "docs/reproduce.md": reproduce,
    "docs/limits.md": limits,
    "docs/arena.md": arena,
    "docs/policies.md": policies,
}


def main() -> None:
    """Keep new claims if the options ask for it, then write all pages."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--claims", type=Path, help="folder that `schedbed reproduce` wrote")
    asked = options.parse_args()
    if asked.claims:
        claims.keep(asked.claims, RESULTS / "reproduce")
    for name, render in PAGES.items():
        (ROOT / name).write_text(render(), encoding="utf-8")
        print(name)


if __name__ == "__main__":
    main()
