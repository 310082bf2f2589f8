"""Simulation of the arena's cells by tasks of a Ray cluster.

Each Ray task uses one core and simulates all cells of one workload and seed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from schedbed.deploy.arena.cell_batch import packed
from schedbed.deploy.arena.cells import Cell, Row
from schedbed.deploy.simulated.host_process import HostProcess
from schedbed.deploy.worker_fork import WorkBounds


def run_on_hosts(
    address: str,
    cells: Sequence[Cell],
    bounds: WorkBounds,
    done: Callable[[Cell, Row], None],
    at_once: int | None = None,
) -> None:
    """Simulate the cells on the hosts of the Ray cluster at `address`. Call `done` with each cell and its
    row.

    At most `at_once` Ray tasks run at a time, by default as many as the cluster has cores. The rows equal
    those of `run_cells`, which simulates on this host. Ray's workers receive schedbed's code and users'
    policy files, but traces and applications must exist on each host at the same paths. A Ray task whose host
    is lost runs again on another host. Raises BadInput if the Ray cluster cannot be joined.
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
    """Yield one list of cells for each workload and seed, since these cells share the times that jobs take
    alone.
    """
    for _, same in groupby(cells, key=lambda cell: (cell.course.name, cell.seed)):
        yield list(same)


def run_apart(batch: str) -> list[Row]:
    """Simulate a JSON batch of cells in a new process and return their rows.

    Raises RuntimeError if the process fails.
    """
    with HostProcess("schedbed.deploy.arena.cell_batch") as process:
        return json.loads(process.ask(batch.encode()))
