"""Cells as tasks of a Ray cluster: all of a workload and a seed in one task, a core each, on whichever host has one."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

from schedbed.deploy.arena.cell_batch import packed
from schedbed.deploy.arena.cell_processes import CellBounds
from schedbed.deploy.arena.cells import Cell, Row


def play_over(
    address: str, cells: Sequence[Cell], bounds: CellBounds, done: Callable[[Cell, Row], None]
) -> None:
    """Play the cells on the hosts of the Ray cluster at `address`, and hand each row to `done` in this process.

    Rows are those of `play_all`. Workers get our code and users' policy files; traces and applications are read on the
    host where a task runs, by the same path. A task whose host is lost runs again elsewhere. Raises BadInput when the
    cluster cannot be joined.
    """
    import ray
    from ray.exceptions import RayError

    from schedbed.deploy.live.ray_cluster import join_ray

    if not cells:
        return
    join_ray(address, f"schedbed-arena-{secrets.token_hex(4)}")
    try:
        task = ray.remote(play_apart).options(num_cpus=1)
        waiting = {task.remote(packed(batch, bounds)): batch for batch in batches(cells)}
        while waiting:
            for ready in ray.wait(list(waiting), num_returns=1)[0]:
                batch = waiting.pop(ready)
                try:
                    rows: list[Row] = ray.get(ready)
                except RayError as error:
                    why = str(error).splitlines()[-1]
                    rows = [cell.row("failed", why) for cell in batch]
                for cell, row in zip(batch, rows, strict=True):
                    done(cell, row)
    finally:
        ray.shutdown()


def batches(cells: Sequence[Cell]) -> Iterator[list[Cell]]:
    """Yield the cells of each workload and seed together: they share how long jobs last alone."""
    for _, same in groupby(cells, key=lambda cell: (cell.course.name, cell.seed)):
        yield list(same)


def play_apart(batch: str) -> list[Row]:
    """Play a packed batch in a process of its own. Raises RuntimeError when that ends badly."""
    import json

    import schedbed

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
