"""Tests that commands refuse a run's folder whose files differ from what the run wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from schedbed.deploy.results.record_check import failures, merge_parts, open_record
from schedbed.deploy.results.runfile import RunFile, RunRecord
from schedbed.scheduler.history import COLUMNS, History
from schedbed.tasks.errors import BadInput
from tests.harness import damaged_runs


def job_row(job: str, state: str) -> tuple[object, ...]:
    values = {"job": job, "state": state, "name": job, "maps": 1, "reduces": 0, "submit": 0.0}
    return tuple(values.get(name) for name in COLUMNS["jobs"])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Write a run of 3,000 jobs whose run.json reports success, although its tables are empty."""
    History(tmp_path, "fifo", 0).close()
    run = RunFile(
        scenario={},
        policies=["fifo"],
        repeats=1,
        seed=1,
        machines="process",
        jobs=[f"job_{number:04}" for number in range(1, 3001)],
        runs=[RunRecord(policy="fifo", repeat=0, epoch_s=0.0, state="succeeded")],
    )
    run.save(tmp_path)
    return tmp_path


def with_rows(folder: Path, bad: dict[str, str]) -> RunFile:
    run = RunFile.load(folder)
    history = History(folder, "fifo", 0)
    states = {job: bad.get(job, "succeeded") for job in run.jobs}
    history.append("jobs", [job_row(job, state) for job, state in states.items() if state])
    history.close()
    merge_parts(folder, run)
    return RunFile.load(folder)


def test_one_failed_job_of_3000_is_found_in_the_rows(folder: Path) -> None:
    run = with_rows(folder, {"job_0001": "failed"})
    assert run.tables["jobs"].rows == 3000
    assert failures(folder, run) == ["fifo: job_0001 failed"]


def test_a_job_without_a_row_is_a_failure(folder: Path) -> None:
    run = with_rows(folder, {"job_0002": ""})
    assert failures(folder, run) == ["fifo: 1 of 3000 planned jobs have no row: job_0002"]


def test_a_record_that_holds_is_opened_and_merged_again(folder: Path) -> None:
    run = with_rows(folder, {})
    assert open_record(folder) == run and not failures(folder, run)
    merge_parts(folder, run)
    assert run.left_out == [] and open_record(folder) == run


def test_tables_that_were_not_completed_are_told(folder: Path) -> None:
    with pytest.raises(BadInput, match="never completed, expected `schedbed report"):
        open_record(folder)


def test_rows_that_were_lost_are_told_by_all_that_read(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torn = folder / "parts" / "jobs" / "torn-0-0.parquet"
    torn.parent.mkdir()
    torn.write_bytes(b"PAR1")
    run = with_rows(folder, {})
    assert failures(folder, run) == [f"damaged and left out: jobs/{torn.name}"]
    open_record(folder)
    assert f"damaged and left out: jobs/{torn.name}" in capsys.readouterr().err


@pytest.mark.long  # seconds
def test_no_command_takes_a_damaged_folder(tmp_path: Path) -> None:
    good = damaged_runs.make_run(tmp_path, "4s")
    for name in ("explain", "whatif"):
        assert damaged_runs.call(*damaged_runs.commands(good, tmp_path)[name])[0] == 0
    assert not damaged_runs.silent_successes(tmp_path, len(damaged_runs.DAMAGES), seed=3)
