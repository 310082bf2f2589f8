"""Cells as tasks of a Ray cluster: all cells of a workload and seed in one task, which takes one core of any host."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

import schedbed
from schedbed.deploy.arena.cell_batch import packed
from schedbed.deploy.arena.cells import Cell, Row
from schedbed.deploy.worker_fork import WorkBounds


def play_over(
    address: str, cells: Sequence[Cell], bounds: WorkBounds, done: Callable[[Cell, Row], None]
) -> None:
    """Simulate the cells on the hosts of the Ray cluster at `address`. Pass each row to `done` in this process.

    Rows are those of `play_all`. Workers get our code and users' policy files; traces and applications are read on
    the task's host by the same path. A task whose host is lost runs again elsewhere. Raises BadInput if the cluster
    cannot be joined.
    """
    from schedbed.deploy.live.ray_join import tasks_on_hosts

    apart = list(batches(cells))
    if not apart:
        return
    for number, found in tasks_on_hosts(address, play_apart, [packed(batch, bounds) for batch in apart]):
        failed = isinstance(found, Exception)
        rows = [cell.row("failed", str(found)) for cell in apart[number]] if failed else found
        for cell, row in zip(apart[number], rows, strict=True):
            done(cell, row)


def batches(cells: Sequence[Cell]) -> Iterator[list[Cell]]:
    """Yield the cells of each workload and seed together, since they share the isolated times of jobs."""
    for _, same in groupby(cells, key=lambda cell: (cell.course.name, cell.seed)):
        yield list(same)


def play_apart(batch: str) -> list[Row]:
    """Simulate a packed batch in a process of its own. Raises RuntimeError if it fails."""
    above = str(Path(schedbed.__file__).parent.parent)
    done = subprocess.run(
        [sys.executable, "-m", "schedbed.deploy.arena.cell_batch"],
        input=batch,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": above},
    )
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["it said nothing"]
        raise RuntimeError(f"its process ended with code {done.returncode}: {said[-1]}")
    return json.loads(done.stdout)
