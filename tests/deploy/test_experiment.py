"""Tests the order of the runs in an experiment, and accidents that end an experiment with one line."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from schedbed.deploy import whole_run
from schedbed.deploy.failures import RunFailed
from schedbed.deploy.live import live_runs
from schedbed.deploy.options import run_order
from schedbed.deploy.scenario.resolve import resolve
from schedbed.deploy.whole_run import RunOptions, run_scenario

SCENARIO: dict[str, Any] = {
    "workload": {"jobs": [{"name": "p", "app": "pi", "reduces": 1}]},
    "policies": ["fifo"],
}


def test_repeats_alternate_the_order_of_the_policies() -> None:
    assert run_order(3, 2) == [(0, 0), (0, 1), (0, 2), (1, 2), (1, 1), (1, 0)]


def test_a_disk_that_fills_is_one_line_that_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(tmp_path / "parts/jobs/x.parquet"))

    monkeypatch.setattr(live_runs.LiveRuns, "run_all", full)
    monkeypatch.setattr(whole_run, "finish", full)
    with pytest.raises(
        RunFailed, match=r"jobs/x.parquet: No space left on device; make room, then: schedbed report"
    ):
        run_scenario(resolve(SCENARIO), RunOptions(out=tmp_path))
    assert not (tmp_path / ".lock").exists()
