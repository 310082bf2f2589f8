"""Tests batches of the arena's runs for other hosts: they give the same rows, also for policies in users'
files.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from schedbed.deploy.arena.cell_batch import packed, run_packed
from schedbed.deploy.arena.cell_processes import run_cells
from schedbed.deploy.arena.cells import Cell, Row
from schedbed.deploy.arena.contest import batches, run_apart
from schedbed.deploy.arena.courses import choose
from schedbed.deploy.worker_fork import WorkBounds
from tests.deploy.arena.test_contest import SMALL
from tests.harness.own_policy import MINE

BOUNDS = WorkBounds(300.0, 4 << 30)


@pytest.fixture
def cells(tmp_path: Path) -> list[Cell]:
    """Return the runs of two policies, one of them in a user's file, on a small workload with two seeds."""
    (tmp_path / "small.yaml").write_text(SMALL)
    (tmp_path / "mine.py").write_text(MINE)
    (course,) = choose([], [tmp_path / "small.yaml"], quick=True)
    policies = ("fifo", f"{tmp_path / 'mine.py'}:Mine")
    return [Cell(policy, course, seed) for seed in (1, 2) for policy in policies]


def test_a_batch_gives_the_rows_of_this_host(cells: list[Cell], tmp_path: Path):
    (tmp_path / "alone").mkdir()
    rows: dict[str, Row] = {}
    run_cells(cells, 2, BOUNDS, tmp_path / "alone", lambda cell, row: rows.update({cell.key: row}))
    said = packed(cells, BOUNDS)
    (tmp_path / "mine.py").unlink()  # as on a host that never had it
    assert run_packed(said) == [rows[key] for key in rows_in_order(rows, cells)]
    assert {row["state"] for row in rows.values()} == {"succeeded"}


def rows_in_order(rows: dict[str, Row], cells: list[Cell]) -> list[str]:
    """Return the keys of `rows` in the order of `cells`, matched by each row's policy and seed."""
    by_name = {(row["policy"], row["seed"]): key for key, row in rows.items()}
    return [by_name[cell.policy, cell.seed] for cell in cells]


def test_cells_of_a_workload_and_a_seed_go_together(cells: list[Cell]):
    assert [[cell.seed for cell in batch] for batch in batches(cells)] == [[1, 1], [2, 2]]


def test_a_process_of_its_own_runs_a_batch_or_says_why_not(cells: list[Cell]):
    assert [row["state"] for row in run_apart(packed(cells[:2], BOUNDS))] == ["succeeded"] * 2
    with pytest.raises(RuntimeError, match=r"ended with code 1: json\.decoder\.JSONDecodeError"):
        run_apart("{")
