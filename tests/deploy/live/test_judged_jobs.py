"""Tests that a live run is judged by the rows of all jobs, since the status lists only the latest jobs."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from schedbed.cluster.clock import RunClock
from schedbed.deploy.live.job_outputs import outputs_folder
from schedbed.deploy.live.live_runs import LiveRuns
from schedbed.deploy.live.live_session import Session
from schedbed.deploy.options import RunOptions
from schedbed.deploy.results.runfile import RunRecord
from schedbed.scheduler.history import COLUMNS, History
from schedbed.tasks.workloads.planned import PlannedJob

JOBS, SHOWN, POLLED = 3000, 1000, 500


def status_of(job: str) -> dict[str, Any]:
    state = "failed" if job == "job_0001" else "succeeded"
    return {"job": job, "state": state, "reason": "exit code 3" if state == "failed" else ""}


class JobTrackerThatForgets:
    """A fake JobTracker that ends some jobs before each poll, and lists only the latest in its status."""

    def __init__(self, ids: list[str]) -> None:
        self._ids, self._ended = ids, 0

    async def poll(self, cursors: dict[str, int]) -> dict[str, Any]:
        self._ended = min(self._ended + POLLED, len(self._ids))
        rows = [
            tuple(status_of(job).get(name) for name in COLUMNS["jobs"])
            for job in self._ids[cursors.get("jobs", 0) : self._ended]
        ]
        latest = [status_of(job) for job in self._ids[: self._ended][-SHOWN:]]
        return {
            "status": {"jobs": latest, "nodes": [], "recent": []},
            "rows": {"jobs": rows},
            "ended": self._ended == len(self._ids),
            "report": {},
            "failure": "",
        }


@pytest.fixture
def session(tmp_path: Path) -> Session:
    """Return a session with fake masters, in which all jobs have ended."""
    ids = [f"job_{number:04}" for number in range(1, JOBS + 1)]
    masters = SimpleNamespace(job_tracker=JobTrackerThatForgets(ids), name_node=None)
    masters.to_name_node = masters.to_job_tracker = None
    config = SimpleNamespace(clock=lambda: RunClock(0.0, 1.0), token="t", work=tmp_path)
    scenario = SimpleNamespace(jobs=[SimpleNamespace(job=job) for job in ids])
    made = Session(
        cast(Any, SimpleNamespace(masters=masters)),
        cast(Any, scenario),
        cast(Any, config),
        History(tmp_path, "fifo", 0, part_rows=10**6),
    )
    while not made._poll(lambda _: None):
        pass
    return made


def test_one_job_that_failed_early_fails_the_run_and_all_others_are_checked(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[str] = []

    def check(jobs: list[PlannedJob], _: Path) -> list[str]:
        checked.extend(job.job for job in jobs)
        return []

    monkeypatch.setattr(session, "outputs", lambda: SimpleNamespace(check=check))
    monkeypatch.setattr(session, "_cluster", SimpleNamespace(addresses=dict))
    runs = LiveRuns.__new__(LiveRuns)
    runs._options = RunOptions()
    record = RunRecord(policy="fifo", repeat=0, epoch_s=0.0)
    runs._judge(record, session)
    assert (record.state, record.note) == ("failed", "job_0001 failed: exit code 3")
    assert len(checked) == JOBS - 1 and "job_0001" not in checked


def test_a_planned_job_without_a_row_fails_the_run(session: Session) -> None:
    del session.ended["job_0007"]
    assert session.unsuccessful()[1] == "job_0007 has no row: reason not known"


@pytest.mark.parametrize(
    "spec", ["/abs/mine.py:Mine", "../mine.py:Mine", "..", "x" * 300, "a//b", "a/../../b"]
)
def test_outputs_stay_below_the_folder_of_the_run(tmp_path: Path, spec: str) -> None:
    kept = outputs_folder(tmp_path, spec, 1)
    assert kept.parent.parent == tmp_path / "outputs" and kept.name == "1"
    assert kept.resolve() == kept and len(kept.parent.name) < 200
    kept.mkdir(parents=True)


def test_outputs_of_two_files_of_one_name_do_not_meet(tmp_path: Path) -> None:
    one, other = (outputs_folder(tmp_path, f"/{part}/mine.py:Mine", 0) for part in "ab")
    assert one != other and one.parent.name.startswith("mine.py:Mine-")
    for plain in ("delay:node_wait=5s", "policies/mine.py:Mine"):
        assert outputs_folder(tmp_path, plain, 0) == tmp_path / "outputs" / plain / "0"
