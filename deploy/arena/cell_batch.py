"""A program that simulates a batch of cells (policy, workload, seed), JSON in and out, on a Ray cluster's host."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Generator, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from schedbed.deploy.arena.cell_processes import run_cells
from schedbed.deploy.arena.cells import Cell, Row
from schedbed.deploy.arena.courses import Course
from schedbed.deploy.simulated.host_process import serve
from schedbed.deploy.simulated.sent_runs import contents_of, file_of, moved_to
from schedbed.deploy.worker_fork import WorkBounds
from schedbed.deploy.workspace import base_folder, owned


def packed(cells: Sequence[Cell], bounds: WorkBounds) -> str:
    """Return cells and limits as JSON for another host, with users' policy files."""
    paths = {cell.policy: file_of(cell.policy) for cell in cells}
    files = {policy: contents_of(path) for policy, path in paths.items() if path is not None}
    said = [{"policy": cell.policy, "course": asdict(cell.course), "seed": cell.seed} for cell in cells]
    return json.dumps({"cells": said, "bounds": asdict(bounds), "files": files})


def run_packed(said: str) -> list[Row]:
    """Simulate the cells of the JSON batch `said` one after the other. Return their rows in the same order."""
    batch: dict[str, Any] = json.loads(said)
    with tempfile.TemporaryDirectory(prefix=owned("batch-"), dir=base_folder()) as made:
        specs = {
            spec: moved_to(Path(made) / str(number), spec, contents)
            for number, (spec, contents) in enumerate(batch["files"].items())
        }
        cells = [
            Cell(specs.get(each["policy"]) or each["policy"], Course(**each["course"]), each["seed"])
            for each in batch["cells"]
        ]
        rows: dict[str, Row] = {}
        shared = Path(made) / "alone"
        shared.mkdir()
        bounds = WorkBounds(**batch["bounds"])
        run_cells(cells, 1, bounds, shared, lambda cell, row: rows.update({cell.key: row}))
        return [
            _renamed(rows[cell.key], cell.policy, each["policy"])
            for cell, each in zip(cells, batch["cells"], strict=True)
        ]


def _renamed(row: Row, here: str, there: str) -> Row:
    """Return the row with the policy's temporary name, also its path in the note, replaced."""
    note = (
        row["note"].replace(here.partition(":")[0], there.partition(":")[0]) if here != there else row["note"]
    )
    return row | {"policy": there, "note": note}


def answers(requests: Iterator[bytes]) -> Generator[bytes]:
    for request in requests:
        yield json.dumps(run_packed(request.decode())).encode()


if __name__ == "__main__":
    serve(answers)
