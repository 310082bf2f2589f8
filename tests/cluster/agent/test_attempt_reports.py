"""What is reported of an attempt, from what it left and how it ended."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from schedbed.cluster.agent.attempt_reports import Running, report_of
from tests.harness.agents import attempt_spec

EXIT_0, EXIT_1, SIGNAL_9, SIGNAL_40 = 0, 1 << 8, 9, 40
OWN = {
    "state": "succeeded",
    "reason": "",
    "start_s": 2.0,
    "end_s": 3.0,
    "counters": {"a": 1},
    "partitions": [5],
}


def ended(folder: Path, status: int | None, error: str = "", **changes: Any) -> tuple[str, str]:
    kill_reason, over = changes.get("kill_reason"), changes.get("over_memory", False)
    running = Running(attempt_spec(), 0, 1.5, 0, kill_reason=kill_reason)
    report = report_of(running, folder, status, error, over_memory=over, now_s=9.0)
    assert report["attempt"] == "job_0001_m_000000_0" and report["start_s"] <= report["end_s"]
    return report["state"], report["reason"]


def leave(folder: Path, **changes: Any) -> None:
    (folder / "report.json").write_text(json.dumps(OWN | changes))


def test_its_own_word_counts_when_it_exited(tmp_path: Path) -> None:
    leave(tmp_path)
    assert ended(tmp_path, EXIT_0) == ("succeeded", "")
    assert ended(tmp_path, EXIT_0, kill_reason="too late") == ("succeeded", "")
    leave(tmp_path, state="failed", reason="disk full")
    assert ended(tmp_path, EXIT_1) == ("failed", "disk full")


def test_a_report_of_one_that_was_killed_is_not_believed(tmp_path: Path) -> None:
    leave(tmp_path)
    assert ended(tmp_path, SIGNAL_9, kill_reason="pre-empted") == ("killed", "pre-empted")
    assert ended(tmp_path, SIGNAL_9) == ("failed", "killed by signal 9 (SIGKILL)")
    assert ended(tmp_path, None, "the warm process died") == ("failed", "the warm process died")


def test_the_kernel_is_asked_first_why_it_was_killed(tmp_path: Path) -> None:
    assert ended(tmp_path, SIGNAL_9, over_memory=True) == ("failed", "over its memory limit of 64 MiB")
    assert ended(tmp_path, SIGNAL_40) == ("failed", "killed by signal 40")


@pytest.mark.parametrize("left", ["", "{", "[]", '{"state": "odd"}'])
def test_a_report_that_is_not_whole_is_none(tmp_path: Path, left: str) -> None:
    (tmp_path / "report.json").write_text(left)
    (tmp_path / "log").write_text("first\nlast words\n\n")
    assert ended(tmp_path, EXIT_1) == ("failed", "ended with status 1 and no report: last words")


def test_times_come_from_what_is_known(tmp_path: Path) -> None:
    running = Running(attempt_spec(), 0, 1.5, 0)
    assert report_of(running, tmp_path, SIGNAL_9, "", over_memory=False, now_s=9.0)["start_s"] == 1.5
    (tmp_path / "status").write_text('{"started_s": 1.7}')
    report = report_of(running, tmp_path, SIGNAL_9, "", over_memory=False, now_s=9.0)
    assert (report["start_s"], report["end_s"]) == (1.7, 9.0)
    leave(tmp_path)
    report = report_of(running, tmp_path, EXIT_0, "", over_memory=False, now_s=9.0)
    assert (report["start_s"], report["end_s"], report["counters"]) == (2.0, 3.0, {"a": 1})
    assert report["partitions"] == [5]
