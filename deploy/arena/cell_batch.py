"""A program that simulates a batch of cells on a host of a Ray cluster.

A cell is the simulation of one policy on one workload with one seed. The program reads the batch as JSON from
standard input and prints the result rows as JSON. It is a separate process because Ray's workers must not
fork. It ends together with the worker that started it.
"""

from __future__ import annotations

import ctypes
import json
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from schedbed.deploy.arena.cell_processes import run_cells
from schedbed.deploy.arena.cells import Cell, Row
from schedbed.deploy.arena.courses import Course
from schedbed.deploy.worker_fork import PR_SET_PDEATHSIG, WorkBounds
from schedbed.deploy.workspace import base_folder, owned
from schedbed.scheduler.registry.user_file import is_policy_file


def packed(cells: Sequence[Cell], bounds: WorkBounds) -> str:
    """Convert the cells and their limits to a JSON batch that another host can simulate.

    The batch includes the text of users' policy files, since the other host may not have these files.
    """
    files = {
        cell.policy: Path(cell.policy.partition(":")[0]).read_text(encoding="utf-8")
        for cell in cells
        if is_policy_file(cell.policy)
    }
    said = [{"policy": cell.policy, "course": asdict(cell.course), "seed": cell.seed} for cell in cells]
    return json.dumps({"cells": said, "bounds": asdict(bounds), "files": files})


def run_packed(said: str) -> list[Row]:
    """Simulate the cells of the JSON batch `said` one after the other. Return their rows in the same
    order.
    """
    batch: dict[str, Any] = json.loads(said)
    with tempfile.TemporaryDirectory(prefix=owned("batch-"), dir=base_folder()) as made:
        specs = _write_files(batch["files"], Path(made))
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
    """Return the row with the policy's temporary name on this host, `here`, replaced by its original name,
    `there`.

    Each name begins with the path of the policy's file. The path is also replaced in the row's note.
    """
    note = (
        row["note"].replace(here.partition(":")[0], there.partition(":")[0]) if here != there else row["note"]
    )
    return row | {"policy": there, "note": note}


def _write_files(files: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Write each policy file into its own folder below `folder`, and return the new names of the policies.

    `files` maps the original name of each policy, which begins with the path of its file, to the text of the
    file. The result maps each original name to the name with the new path.
    """
    found: dict[str, str] = {}
    for number, (spec, text) in enumerate(files.items()):
        name, _, rest = spec.partition(":")
        path = folder / str(number) / Path(name).name
        path.parent.mkdir()
        path.write_text(text, encoding="utf-8")
        found[spec] = f"{path}:{rest}"
    return found


def main() -> None:
    """Read a batch of cells from standard input, simulate them, and print the rows as JSON."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    json.dump(run_packed(sys.stdin.read()), sys.stdout)


if __name__ == "__main__":
    main()
