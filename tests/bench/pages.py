"""Render the pages of docs that show results from the result files in docs/results.

    python -m tests.bench.pages                    # writes all of them
    python -m tests.bench.pages --claims DIR       # first keeps the claims of `schedbed reproduce --out DIR`

Figures are kept by `tests/bench/run --out docs/results/figures`, limits by `schedbed doctor quickstart --hostile
--machines KIND --save docs/results/limits/KIND.json`, when a policy pays by `python -m
tests.pages.when_pays`, what agrees with real schedulers by `python -m tests.pages.agrees`. The text
around the tables stands in docs/results/PAGE.template.md; a line `{{NAME}}` there becomes a table. A page for each
paper and each benchmark has no template: its texts are in docs/results/reproduce and docs/results/benchmarks.yaml.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping
from pathlib import Path

import yaml

from tests.bench.figures import PIVOT, ROOT, Figure, ResultFile, pivoted, show
from tests.pages import agrees, claims, limit_tables, when_pays, whole_arena

RESULTS = ROOT / "docs" / "results"
PLACE = re.compile(r"^\{\{([\w/-]+)\}\}$", re.MULTILINE)
DO_NOT_EDIT = (
    "<!-- Written by `python -m tests.bench.pages` from docs/results. Edit there: a test compares. -->\n"
)


def rendered(results: Path = RESULTS) -> dict[str, str]:
    """Return a dictionary from the pages, by their path below docs, to their text."""
    figures = {path.stem: ResultFile.load(path) for path in (results / "figures").glob("*.json")}
    abouts = yaml.safe_load((results / "benchmarks.yaml").read_text(encoding="utf-8"))
    limits = limit_tables.load_all(results / "limits")
    arena = json.loads((results / "arena" / whole_arena.KEPT).read_text(encoding="utf-8"))
    of_claims = claims.tables(results / "reproduce")
    counts = {"counts": of_claims.pop("counts")}
    tables: dict[str, Mapping[str, str]] = {
        "performance.md": {
            "headlines": headlines(figures, abouts),
            "limits": limit_tables.short_table(limits),
        },
        "reproduce.md": of_claims,
        "results/claims.md": counts,
        "limits.md": {name: limit_tables.table(kept) for name, kept in limits.items()},
        "agrees.md": agrees.tables(results / "agrees"),
        "arena.md": {"ranks": whole_arena.ranks(arena), "leaders": whole_arena.leaders(arena)},
        "policies.md": {f"when/{name}": text for name, text in when_pays.tables(results / "when").items()},
    }
    pages = {
        name: fill((results / f"{Path(name).stem}.template.md").read_text(encoding="utf-8"), mine)
        for name, mine in tables.items()
    }
    for paper, text in claims.papers(results / "reproduce").items():
        pages[f"results/papers/{paper}.md"] = DO_NOT_EDIT + text
    for name, about in abouts.items():
        text = table(figures[name]) + (f"\n{about['about']}" if "about" in about else "")
        pages[f"results/benchmarks/{name}.md"] = (
            DO_NOT_EDIT + text + "\n[All benchmarks](../../performance.md)\n"
        )
    return pages


def headlines(figures: Mapping[str, ResultFile], abouts: Mapping[str, Mapping[str, str]]) -> str:
    """Return a Markdown table with a row for each benchmark: how many targets it meets, and its headline.

    Raise ValueError for a benchmark without a headline, so that no result is lost silently.
    """
    if figures.keys() != abouts.keys():
        raise ValueError(
            f"benchmarks.yaml has {', '.join(sorted(abouts))}, there are results of {', '.join(sorted(figures))}"
        )
    lines = ["| benchmark | targets met | figure | target | median (min..max) |", "|---|---|---|---|---|"]
    for name, about in abouts.items():
        verdicts = [figure.verdict for figure in figures[name].figures if figure.verdict]
        met = f"{verdicts.count('met')} of {len(verdicts)}" if verdicts else "-"
        [shown] = [figure for figure in figures[name].figures if figure.name == about["headline"]]
        title = f"[{figures[name].title}](results/benchmarks/{name}.md)"
        cells = (title, met, shown.name.replace(PIVOT, ", "), shown.target, shown.measured)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


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
    """Return a result file as Markdown: a title, how the figures were measured, and a row per figure."""
    when = f"Carried over from {kept.carried_over}." if kept.carried_over else f"Measured on {kept.date}."
    how = "To measure again" if kept.carried_over else "Command"
    head = [f"# {kept.title}\n", f"{when} Host: {kept.host}. {how}: `{kept.command}`.\n"]
    if all(PIVOT in figure.name for figure in kept.figures):
        return "\n".join(head + pivot_lines(kept)) + "\n"
    lines = [
        *head,
        "| figure | target | median (min..max) | repeats | |",
        "|---|---|---|---|---|",
    ]
    for figure in kept.figures:
        name = (f"{figure.name} ({figure.note})" if figure.note else figure.name).replace("|", "\\|")
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


def write() -> None:
    """Write all pages, and print their names."""
    for name, text in rendered().items():
        (ROOT / "docs" / name).parent.mkdir(exist_ok=True)
        (ROOT / "docs" / name).write_text(text, encoding="utf-8")
        print(f"docs/{name}")


def main() -> None:
    """Keep new claims if the options ask for it, then write all pages."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--claims", type=Path, help="folder that `schedbed reproduce` wrote")
    asked = options.parse_args()
    if asked.claims:
        claims.keep(asked.claims, RESULTS / "reproduce")
    write()


if __name__ == "__main__":
    main()
