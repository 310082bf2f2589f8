"""Concurrent simulation of cells in processes, so that a crash, hang or lack of memory fails one cell only."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from schedbed.deploy.arena.cells import Cell, Row, run_cell
from schedbed.deploy.side_by_side import SideWork, side_by_side
from schedbed.deploy.worker_fork import RESULT, STOPPED, Send, WorkBounds, WorkEnd
from schedbed.deploy.workspace import base_folder, owned, sweep


def run_cells(
    cells: Sequence[Cell], jobs: int, bounds: WorkBounds, shared: Path, done: Callable[[Cell, Row], None]
) -> None:
    """Simulate the cells, `jobs` at a time, and call `done` here with each row. Nothing is left at the end.

    `shared` caches the seconds that each job takes alone.
    """
    import schedbed.deploy.results.metrics
    import schedbed.deploy.simulated.simulated_runs  # noqa: F401  # Import once here, not in each process.

    def row_of(cell: Cell, end: WorkEnd) -> None:
        if end.kind != STOPPED:
            done(cell, end.value if end.kind == RESULT else cell.row("failed", end.value))

    sweep(base_folder())
    with tempfile.TemporaryDirectory(prefix=owned("arena-"), dir=base_folder()) as scratch:
        folders = (shared, Path(scratch))
        works = [SideWork(do=partial(_run_one, cell, folders), ended=partial(row_of, cell)) for cell in cells]
        side_by_side(works, jobs, bounds)


def _run_one(cell: Cell, folders: tuple[Path, Path], _: Send) -> dict[str, Any]:
    return run_cell(cell, *folders)
