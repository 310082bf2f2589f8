"""Tests of the agent's reports on the end of an attempt, from the files the attempt left and from its exit status."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from schedbed.cluster.agent.attempts import Running, report_of, status_of
from schedbed.cluster.agent.limits import NO_LOSSES, Losses
from tests.harness.agents import attempt_spec

EXIT_0, EXIT_1, SIGNAL_9, SIGNAL_40 = 0, 1, -9, -40
OWN = {
    "state": "succeeded",
    "reason": "",
    "start_s": 2.0,
    "end_s": 3.0,
    "counters": {"a": 1},
    "partitions": [5],
}


def ended(folder: Path, code: int | None, error: str = "", **changes: Any) -> tuple[str, str]:
    running = Running(attempt_spec(), 1.5, kill_reason=changes.get("kill_reason"))
    over = running.over_limit(changes.get("losses", NO_LOSSES))
    report = report_of(running, folder, code, error, over=over, now_s=9.0)
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
    over_memory, over_processes = Losses(oom_kills=1), Losses(refused_forks=3)
    assert ended(tmp_path, SIGNAL_9, losses=over_memory) == ("failed", "over its memory limit of 64 MiB")
    assert ended(tmp_path, SIGNAL_9, losses=over_processes) == (
        "failed",
        "over its limit of 256 processes and threads",
    )
    assert ended(tmp_path, SIGNAL_9, losses=over_memory, kill_reason="stop") == ("killed", "stop")
    leave(tmp_path)  # a child was killed, and the attempt itself lived on
    assert ended(tmp_path, EXIT_0, losses=over_memory) == ("failed", "over its memory limit of 64 MiB")
    (tmp_path / "report.json").unlink()
    assert ended(tmp_path, SIGNAL_40) == ("failed", "killed by signal 40")


@pytest.mark.parametrize("left", ["", "{", "[]", '{"state": "odd"}'])
def test_a_report_that_is_not_whole_is_none(tmp_path: Path, left: str) -> None:
    (tmp_path / "report.json").write_text(left)
    (tmp_path / "log").write_text("first\nlast words\n\n")
    assert ended(tmp_path, EXIT_1) == ("failed", "ended with status 1 and no report: last words")


def test_times_come_from_what_is_known(tmp_path: Path) -> None:
    running = Running(attempt_spec(), 1.5)
    assert report_of(running, tmp_path, SIGNAL_9, "", over=None, now_s=9.0)["start_s"] == 1.5
    (tmp_path / "status").write_text('{"started_s": 1.7}')
    report = report_of(running, tmp_path, SIGNAL_9, "", over=None, now_s=9.0)
    assert (report["start_s"], report["end_s"]) == (1.7, 9.0)
    leave(tmp_path)
    report = report_of(running, tmp_path, EXIT_0, "", over=None, now_s=9.0)
    assert (report["start_s"], report["end_s"], report["counters"]) == (2.0, 3.0, {"a": 1})
    assert report["partitions"] == [5]


@pytest.mark.parametrize(
    "said",
    [
        {
            "counters": {"a": "many", "b": [1], "c": float("inf"), "d": None},
            "partitions": [1, "2"],
            "end_s": "now",
        },
        {"counters": 3, "partitions": [-1], "start_s": True, "end_s": None, "reason": ["no"]},
    ],
)
def test_nonsense_in_a_report_is_left_out(tmp_path: Path, said: dict[str, Any]) -> None:
    leave(tmp_path, **said)
    report = report_of(Running(attempt_spec(), 1.5), tmp_path, EXIT_0, "", over=None, now_s=9.0)
    assert (report["state"], report["partitions"], report["end_s"]) == ("succeeded", [], 9.0)
    assert set(report["counters"]) <= {"d"} and isinstance(report["reason"], str)


def test_what_is_no_plain_file_is_not_read(tmp_path: Path) -> None:
    """The agent does not read an attempt's report, log or status file if it is a pipe or a symbolic link.

    A pipe would block the agent, and a link could lead to any file that root may read.
    """
    outside = tmp_path / "outside"
    outside.write_text(json.dumps(OWN))
    folder = tmp_path / "attempt"
    folder.mkdir()
    (folder / "report.json").symlink_to(outside)
    os.mkfifo(folder / "log")
    os.mkfifo(folder / "status")
    assert ended(folder, EXIT_0) == ("failed", "ended with status 0 and no report")
    assert status_of(Running(attempt_spec(), 1.5), folder)["progress"] == 0.0
    (folder / "status").unlink()
    (folder / "status").write_text('{"progress": 7, "phase": 5, "started_s": "x"}')
    said = status_of(Running(attempt_spec(), 1.5), folder)
    assert (said["progress"], said["phase"], said["started_s"]) == (1.0, "map", None)
