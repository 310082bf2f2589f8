"""The control of the arena: it simulates the missing cells, then writes the table, the summary and the page."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from schedbed.deploy.arena import arena_page
from schedbed.deploy.arena.cell_batch import packed
from schedbed.deploy.arena.cell_processes import run_cells
from schedbed.deploy.arena.cells import CAUSE_COLUMNS, CAUSES, COLUMNS, FIGURES, Cell, Row, kept_rows
from schedbed.deploy.arena.courses import Course
from schedbed.deploy.arena.live_leaders import hold_live, live_contest
from schedbed.deploy.arena.ranking import front, rank
from schedbed.deploy.scenario.policies import policies_of
from schedbed.deploy.simulated.host_process import HostProcess
from schedbed.deploy.worker_fork import WorkBounds
from schedbed.deploy.workspace import locked

ROWS, TABLE, SUMMARY, PAGE = "cells.jsonl", "arena.parquet", "summary.json", "arena.html"
RANKED_BY = "slowdown_mean"
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contest:
    """An arena: policies on all `courses` with seeds 1 to `seeds`; the best also live with `live_seeds`.

    Simulations run in `jobs` processes here, or on the Ray cluster at `address`, where `jobs` limits Ray
    tasks (None: all cores). `bounds` limits time and memory of each.
    """

    policies: tuple[str, ...]
    courses: tuple[Course, ...]
    seeds: int
    jobs: int | None
    bounds: WorkBounds
    live_seeds: int = 0
    address: str | None = None

    def cells(self) -> list[Cell]:
        """Return the simulations of the arena, ordered by seed, then workload, then policy."""
        return [
            Cell(policy, course, seed)
            for seed in range(1, self.seeds + 1)
            for course in self.courses
            for policy in self.policies
        ]


def hold(contest: Contest, folder: Path, say: Say) -> dict[str, Any]:
    """Simulate the cells without a row in `folder`, write the results there, and return the summary.

    Rows are saved one by one, so the same call continues after Ctrl-C. Raises BadInput for a bad policy.
    """
    policies_of(contest.policies)
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder):
        rows = _run_missing(contest, folder, say)
        found = summarize(contest, rows)
        _write(folder, contest, rows, found)
        live = live_contest(found["leaders"], found["rank"]["ranks"], contest.live_seeds)
        if live.seeds and len(live.policies) > 1:
            found["live"] = hold_live(live, folder, say)
            _write(folder, contest, rows, found)
    return found


def _run_missing(contest: Contest, folder: Path, say: Say) -> list[Row]:
    cells = contest.cells()
    kept = kept_rows(folder / ROWS)
    missing = [cell for cell in cells if cell.key not in kept]
    say(f"{len(cells)} cells, {len(cells) - len(missing)} of them played before")
    shared = folder / "alone"
    shared.mkdir(exist_ok=True)
    with (folder / ROWS).open("a", encoding="utf-8") as out, _bar(len(missing)) as advance:
        count = 0

        def done(cell: Cell, row: Row) -> None:
            nonlocal count
            count += 1
            kept[cell.key] = row
            out.write(json.dumps({"key": cell.key, "row": row}) + "\n")
            out.flush()
            lost = row["state"] != "succeeded"
            if lost or advance is None:
                say(f"[{count}/{len(missing)}] {cell.label}{': ' + row['note'] if lost else ''}")
            if advance is not None:
                advance()

        if contest.address is None:
            run_cells(missing, contest.jobs or 1, contest.bounds, shared, done)
        else:
            run_on_hosts(contest.address, missing, contest.bounds, done, contest.jobs)
    return [kept[cell.key] for cell in cells]


@contextmanager
def _bar(cells: int) -> Iterator[Callable[[], None] | None]:
    """Show a progress bar. Yield a function that advances it, or None if there is no terminal."""
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, Progress, TimeRemainingColumn

    console = Console()
    if not console.is_terminal or not cells:
        yield None
        return
    columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("cells", total=cells)
        yield lambda: progress.advance(task)


def summarize(contest: Contest, rows: Sequence[Row]) -> dict[str, Any]:
    """Return ranks and mean metrics of policies, a sentence for each result, and the Pareto front.

    On the front, no other policy is better in both slowdown and fairness.
    """
    names = [course.name for course in contest.courses]
    of = {
        (p, c): [r for r in rows if (r["policy"], r["workload"]) == (p, c)]
        for p in contest.policies
        for c in names
    }
    values = {p: [_whole(of[p, c], RANKED_BY) for c in names] for p in contest.policies}
    ranked = rank(values)
    means = {
        p: {column: mean([r for r in rows if r["policy"] == p], column) for column in FIGURES}
        for p in contest.policies
    }
    lost = {p: sum(r["policy"] == p and r["state"] != "succeeded" for r in rows) for p in contest.policies}
    points: dict[str, tuple[float, float]] = {}
    for p, each in means.items():
        slowdown, jain = each[RANKED_BY], each["jain"]
        if not lost[p] and slowdown is not None and jain is not None:
            points[p] = slowdown, jain
    leaders: dict[str, Any] = {}
    for kind in dict.fromkeys(course.kind for course in contest.courses):
        places = [place for place, course in enumerate(contest.courses) if course.kind == kind]
        leaders[kind] = list(rank({p: [v[i] for i in places] for p, v in values.items()}).ranks)[:3]
    return {
        "ranked_by": RANKED_BY,
        "seeds": contest.seeds,
        "rank": asdict(ranked) | {"ci95": {p: ranked.interval(p) for p in ranked.ranks}},
        "policies": {p: means[p] | {"lost_cells": lost[p]} for p in ranked.ranks},
        "points": points,
        "front": front(points),
        "leaders": leaders,
        "live": None,
        "cells": {
            p: {c: {RANKED_BY: _whole(of[p, c], RANKED_BY), "why": sentence(of[p, c])} for c in names}
            for p in ranked.ranks
        },
    }


def _whole(rows: Iterable[Row], column: str) -> float | None:
    """Return the column's mean, or None if a simulation failed."""
    mine = list(rows)
    whole = mine and all(row["state"] == "succeeded" and row[column] is not None for row in mine)
    return mean(mine, column) if whole else None


def _write(folder: Path, contest: Contest, rows: Sequence[Row], found: dict[str, Any]) -> None:
    import fastparquet
    import pandas as pd

    data = pd.DataFrame(list(rows), columns=list(COLUMNS))
    numbers = [column for column in COLUMNS if column not in ("policy", "workload", "kind", "state", "note")]
    data[numbers] = data[numbers].astype("float64")
    data["seed"] = data["seed"].astype("int64")
    fastparquet.write(str(folder / TABLE), data, compression="SNAPPY", has_nulls=True, write_index=False)
    for name, text in (
        (SUMMARY, json.dumps(found, indent=1, allow_nan=False) + "\n"),
        (PAGE, arena_page.text(found, [course.name for course in contest.courses])),
    ):
        (folder / f".{name}.tmp").write_text(text, encoding="utf-8")
        (folder / f".{name}.tmp").replace(folder / name)


# Simulation of the arena's cells by tasks of a Ray cluster.
#
# Each Ray task uses one core and simulates all cells of one workload and seed.


def run_on_hosts(
    address: str,
    cells: Sequence[Cell],
    bounds: WorkBounds,
    done: Callable[[Cell, Row], None],
    at_once: int | None = None,
) -> None:
    """Simulate cells on the Ray cluster at `address`, with the rows of `run_cells`. Raises BadInput.

    At most `at_once` Ray tasks run (default: all cores). Hosts get schedbed and policy files, but traces and
    applications must exist there at the same paths. A task whose host is lost runs again elsewhere.
    """
    from schedbed.deploy.live.ray_join import tasks_on_hosts

    apart = list(batches(cells))
    if not apart:
        return

    def asked(_: int) -> Iterator[str]:
        return (packed(batch, bounds) for batch in apart)

    for number, found in tasks_on_hosts(address, run_apart, asked, at_once=at_once):
        failed = isinstance(found, Exception)
        rows = [cell.row("failed", str(found)) for cell in apart[number]] if failed else found
        for cell, row in zip(apart[number], rows, strict=True):
            done(cell, row)


def batches(cells: Sequence[Cell]) -> Iterator[list[Cell]]:
    """Yield one list of cells for each workload and seed, since these cells share the times that jobs take alone."""
    for _, same in groupby(cells, key=lambda cell: (cell.course.name, cell.seed)):
        yield list(same)


def run_apart(batch: str) -> list[Row]:
    """Simulate a batch in a new process. Raises RuntimeError if that fails."""
    with HostProcess("schedbed.deploy.arena.cell_batch") as process:
        return json.loads(process.ask(batch.encode()))


# Sentences that explain a policy's result on a workload: why tasks waited, or why simulations failed.

WORDS: Mapping[str, str] = {
    "splitting": "for a split of their map",
    "data": "for a node with their data",
    "share": "because their user was at its share or another went first",
    "slot": "for a free slot",
    "offer": "for an offer that the policy took",
}
SHARE_TOLD = 0.2
"""The least share of the wait of a cause that a sentence names."""


def mean(rows: Sequence[Row], column: str) -> float | None:
    """Return the mean of known values, or None."""
    known = [row[column] for row in rows if row[column] is not None]
    return sum(known) / len(known) if known else None


def sentence(rows: Sequence[Row]) -> str:
    """Explain a policy's result on a workload, from its rows by seed."""
    lost = [row for row in rows if row["state"] != "succeeded"]
    if lost:
        return f"Lost in {len(lost)} of {len(rows)}: {lost[0]['note'] or 'no reason known'}"
    waited = mean(rows, "task_wait_s")
    if waited is None:
        return "No wait was measured."
    parts = [f"A task waited {waited:.1f} s on average"]
    causes = {cause: mean(rows, column) for cause, column in zip(CAUSES, CAUSE_COLUMNS, strict=True)}
    told = sorted(
        ((seconds, cause) for cause, seconds in causes.items() if seconds and seconds >= SHARE_TOLD * waited),
        reverse=True,
    )
    if told and waited > 0:
        parts.append(", ".join(f"{seconds / waited:.0%} {WORDS[cause]}" for seconds, cause in told))
    beside = _beside(rows)
    return ": ".join(parts) + (f"; {beside}." if beside else ".")


def _beside(rows: Sequence[Row]) -> str:
    said: list[str] = []
    for column, text in (("locality", "{:.0%} of the input was read locally"), ("late", "{:.1f} jobs late")):
        value: Any = mean(rows, column)
        if value is not None and (value or column == "locality"):
            said.append(text.format(value))
    return ", ".join(said)
