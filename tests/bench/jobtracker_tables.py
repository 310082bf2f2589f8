"""Render the measured and simulated tables of docs/jobtracker-scale.md from the result files of
`jobtracker_scale.py`, with several figures in a cell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.bench import jobtracker_load
from tests.bench.figures import Figure, ResultFile, pivoted, show
from tests.bench.jobtracker_load import CLUSTER_ROWS, POLICIES, markdown

Cells = Mapping[str, Mapping[str, Figure]]


def caption(kept: ResultFile, more: str = "") -> str:
    """Return the line above a table: how its figures were obtained."""
    repeats = ", ".join(sorted({str(figure.repeats) for figure in kept.figures}))
    runs = f", medians of {repeats} runs" if repeats != "1" else ""
    return f"{kept.title} ({kept.date}; {kept.host}; `{kept.command}`{runs}).{more}\n\n"


def joined(figures: Sequence[Figure]) -> str:
    """Return the medians of several figures as the text of one cell."""
    return " / ".join(show(figure.median) for figure in figures)


def core(kept: ResultFile) -> str:
    """Return the table of heartbeats in the core. A cell has a value for each policy."""
    cells = pivoted(kept.figures)
    columns = list(next(iter(cells.values())))
    rows = [
        [
            f"{nodes:,}, {jobs:,}",
            *(
                joined([cells[f"{policy}, {nodes:,} nodes, {jobs:,} jobs"][column] for policy in POLICIES])
                for column in columns
            ),
        ]
        for nodes, jobs in ((100, 100), *CLUSTER_ROWS)
    ]
    spread = max(
        max(figure.values) / min(figure.values) for figure in kept.figures if "p99" not in figure.name
    )
    more = f" Microseconds under {' / '.join(POLICIES)}. The runs of one value differ by at most {spread:.1f} times."
    return caption(kept, more) + markdown(["nodes, jobs", *columns], rows)


def plain(kept: ResultFile) -> str:
    """Return a table with a row and a column for each part of the figures' names."""
    cells = pivoted(kept.figures)
    columns = list(next(iter(cells.values())))
    rows = [
        [row, *(f"{show(mine[column].median)} {mine[column].unit}".rstrip() for column in columns)]
        for row, mine in cells.items()
    ]
    return caption(kept) + markdown(["", *columns], rows)


def memory(kept: ResultFile) -> str:
    """Return a table with one row, which has a column for each kind of object."""
    cells = pivoted(kept.figures)
    return caption(kept) + markdown(
        list(cells), [[f"{show(mine['held'].median)} bytes" for mine in cells.values()]]
    )


def conflicts(kept: ResultFile) -> str:
    """Return the table of conflicts. A cell has a value for each share of free slots."""
    cells = pivoted(kept.figures)
    decisions = list(dict.fromkeys(row.partition(", ")[0] for row in cells))
    shares = list(dict.fromkeys(row.partition(", ")[2].removesuffix(" free") for row in cells))
    columns = list(next(iter(cells.values())))
    heads = [f"{column}, {cells[next(iter(cells))][column].unit}".rstrip(", ") for column in columns]
    rows = [
        [
            decision,
            *(joined([cells[f"{decision}, {share} free"][column] for share in shares]) for column in columns),
        ]
        for decision in decisions
    ]
    return caption(kept, f" With {' / '.join(shares)} of the slots free.") + markdown(
        ["a decision", *heads], rows
    )


def tables(folder: Path) -> dict[str, str]:
    """Return all tables of the page by name, from the result files in `folder`."""
    ways = {"core": core, "state": plain, "memory": memory, "conflicts": conflicts, "shards": plain}
    found = {path.stem.partition("_")[2]: path for path in folder.glob("jobtracker_*.json")}
    if found.keys() != ways.keys():
        raise ValueError(f"there are result files for {sorted(found)}, expected {sorted(ways)}")
    made = {f"jobtracker_{name}": way(ResultFile.load(found[name])) for name, way in ways.items()}
    return made | jobtracker_load.tables(folder)
