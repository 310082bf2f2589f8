"""Concurrent simulation of cells, one process each.

A crash, hang or lack of memory fails only that process's cell.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from schedbed.deploy.arena.cells import Cell, Row, play
from schedbed.deploy.side_by_side import SideWork, side_by_side
from schedbed.deploy.worker_fork import RESULT, STOPPED, Send, WorkBounds, WorkEnd
from schedbed.deploy.workspace import base_folder, owned, sweep


def play_all(
    cells: Sequence[Cell], jobs: int, bounds: WorkBounds, shared: Path, done: Callable[[Cell, Row], None]
) -> None:
    """Simulate the cells, `jobs` at a time. Pass each cell with its row to `done` in this process.

    Temporary folders and processes are removed at the end.
    """
    import schedbed.deploy.results.metrics
    import schedbed.deploy.simulated.simulated_runs  # noqa: F401  # Import once here, not in each process.

    def row_of(cell: Cell, end: WorkEnd) -> None:
        if end.kind != STOPPED:
            done(cell, end.value if end.kind == RESULT else cell.row("failed", end.value))

    sweep(base_folder())
    with tempfile.TemporaryDirectory(prefix=owned("arena-"), dir=base_folder()) as scratch:
        folders = (shared, Path(scratch))
        works = [
            SideWork(do=partial(_play_one, cell, folders), ended=partial(row_of, cell)) for cell in cells
        ]
        side_by_side(works, jobs, bounds)


def _play_one(cell: Cell, folders: tuple[Path, Path], _: Send) -> dict[str, Any]:
    return play(cell, *folders)
