"""Tests that reading a run never changes its rows: while the run goes on, and after its end."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import pytest

from schedbed.deploy.results.html_report import rebuild
from schedbed.deploy.simulated.one_run import OneRun
from schedbed.deploy.simulated.simulated_runs import SimRuns
from schedbed.scheduler.history import COLUMNS
from tests.harness.damaged_runs import SCENARIO, call

TASK = "job_0001_m_000000"


def commands(folder: Path, out: Path) -> list[tuple[object, ...]]:
    return [
        ("report", folder),
        ("explain", folder, TASK),
        ("whatif", folder, "--no-live", "--out", out),
    ]


def simulate(folder: Path, out: Path) -> tuple[int, str]:
    file = folder / "record.yaml"
    file.write_text(SCENARIO.replace("SECONDS", "4s"))
    return call("run", file, "--machines", "sim", "--no-live", "--jobs", 1, "--out", out)


def rows(folder: Path) -> dict[str, bytes]:
    return {table: (folder / f"{table}.parquet").read_bytes() for table in COLUMNS}


@contextmanager
def read_after_each_run(folder: Path, tmp_path: Path, said: list[str]) -> Iterator[None]:
    """Call all commands that read after each run of `folder` has written its rows, and expect success."""
    close = OneRun.close

    def closed(run: OneRun) -> None:
        close(run)
        if run.place[0] == folder:
            before = {path for path in folder.rglob("*") if path.is_file()}
            for number, command in enumerate(commands(folder, tmp_path / f"whatif{len(said)}")):
                code, text = call(*command)
                assert code == 0, f"{command}: {text}"
                said.append(text)
                assert {path for path in folder.rglob("*") if path.is_file()} == before, number

    with mock.patch.object(OneRun, "close", closed):
        yield


def test_commands_that_read_do_not_disturb_a_run_that_goes_on(tmp_path: Path) -> None:
    calm, disturbed = tmp_path / "calm", tmp_path / "disturbed"
    assert simulate(tmp_path, calm)[0] == 0
    said: list[str] = []
    with read_after_each_run(disturbed, tmp_path, said):
        code, text = simulate(tmp_path, disturbed)
    assert code == 0, text
    assert rows(disturbed) == rows(calm)
    assert (disturbed / "summary.json").read_bytes() == (calm / "summary.json").read_bytes()
    assert [f"so far, {n} of 2 runs" in text for n, text in zip((1, 1, 1, 2, 2, 2), said, strict=True)] == (
        [True] * 6
    )
    assert "makespan" in said[0] and "n1" in said[1]


def test_a_run_that_has_only_begun_is_said_to_have(tmp_path: Path) -> None:
    texts: list[tuple[int, str]] = []
    run_all = SimRuns.run_all

    def first(self: SimRuns, folder: Path, *others: object) -> None:
        texts.extend(call(*command) for command in commands(folder, tmp_path / "other"))
        run_all(self, folder, *others)  # type: ignore[arg-type]

    with mock.patch.object(SimRuns, "run_all", first):
        assert simulate(tmp_path, tmp_path / "out")[0] == 0
    assert [code for code, _ in texts] == [2] * 3
    assert all("has only begun" in text for _, text in texts)


@pytest.mark.parametrize("kind", ["empty", "of another run"])
def test_part_files_beside_sealed_tables_change_nothing(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "out"
    assert simulate(tmp_path, folder)[0] == 0
    before = rows(folder)
    parts = folder / "parts"
    parts.mkdir()
    if kind != "empty":
        (parts / "jobs").mkdir()
        shutil.copy(folder / "jobs.parquet", parts / "jobs" / "fifo-0-0.parquet")
    for command in commands(folder, tmp_path / "whatif"):
        code, text = call(*command)
        assert code == 0, text
    assert rows(folder) == before
    assert rebuild(folder, with_report=False).tables["jobs"].rows == 4
