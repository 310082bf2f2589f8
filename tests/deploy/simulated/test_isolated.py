"""Tests the time that a job takes alone on the cluster, and the slowdown computed from it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from schedbed.deploy.options import RunOptions
from schedbed.deploy.results.metrics import slowdown
from schedbed.deploy.results.runfile import RunFile
from schedbed.deploy.scenario.resolve import resolve
from schedbed.deploy.scenario.resolved import ResolvedScenario
from schedbed.deploy.simulated import isolated
from schedbed.deploy.simulated.isolated import isolated_times
from schedbed.deploy.whole_run import run_scenario

LARGE: dict[str, Any] = {"app": "synthetic", "maps": 30, "map": {"cpu": "4s"}, "reduces": 1, "user": "ana"}
SMALL: dict[str, Any] = {"app": "synthetic", "maps": 2, "map": {"cpu": "2s"}, "user": "bo"}


def scenario(*jobs: dict[str, Any], **more: Any) -> ResolvedScenario:
    cluster = {"nodes": 2, "heartbeat": "200ms"}
    return resolve(
        {"name": "s", "cluster": cluster, "workload": {"jobs": list(jobs)}, "policies": ["fifo"], **more}
    )


def run(asked: ResolvedScenario, out: Path) -> dict[str, Any]:
    run_scenario(asked, RunOptions(out=out, machines="sim"))
    return json.loads((out / "summary.json").read_text())["policies"]["fifo"]


def test_a_job_that_is_alone_is_not_slowed_down(tmp_path: Path) -> None:
    figures = run(scenario(LARGE | {"submit": "3s"}), tmp_path)
    assert figures["slowdown"]["mean"]["mean"] == pytest.approx(1.0, abs=0.05)
    assert RunFile.load(tmp_path).isolated_s["job_0001"] == pytest.approx(
        figures["completion_s"]["mean"]["mean"], abs=0.2 + 1e-9
    )  # a heartbeat at most


def test_a_small_job_behind_a_large_one_is_and_faults_do_not_count(tmp_path: Path) -> None:
    jobs = (LARGE, SMALL | {"submit": "1s"}, SMALL | {"submit": "2s", "user": "cleo"})
    faults = [{"at": "1s", "slow": "n1", "cpu": 0.1, "for": "5s"}]
    alone = isolated_times(scenario(*jobs))
    assert alone == isolated_times(scenario(*jobs, faults=faults))
    assert alone["job_0002"] == alone["job_0003"] < alone["job_0001"] / 3
    figures = run(scenario(*jobs), tmp_path)["slowdown"]
    assert figures["per_user"]["bo"]["mean"]["mean"] > 3 > figures["per_user"]["ana"]["mean"]["mean"] >= 1


def test_nothing_is_known_of_workloads_that_are_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolated, "TASKS_MAX", 32)
    assert isolated_times(scenario(LARGE, *[SMALL | {"submit": "1s"}] * 9)) == {}
    assert isolated_times(scenario(*[SMALL] * 50)).keys() == {f"job_{n:04}" for n in range(1, 51)}


def test_it_is_at_least_1_and_unknown_where_the_time_alone_is() -> None:
    rows = [("a", 1.0, 3.0), ("b", 1.0, 2.0), ("c", 1.0, 9.0)]
    jobs = pd.DataFrame(rows, columns=["job", "submit", "finish"]).assign(
        state=["succeeded", "succeeded", "failed"], user="u", maps=1, reduces=0
    )
    assert slowdown(jobs, {"a": 1.0, "b": 4.0, "c": 1.0})["mean"] == 1.5
    assert slowdown(jobs, {"a": 1.0})["mean"] == 2.0
    assert np.isnan(slowdown(jobs, {})["mean"])


def test_several_jobs_at_a_time_take_what_each_takes_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = scenario(LARGE, SMALL | {"submit": "1s"}, SMALL | {"maps": 3}, SMALL | {"submit": "2s"})
    one_by_one = isolated_times(jobs)
    assert len(set(one_by_one.values())) > 1 and isolated_times(jobs, 2) == one_by_one
    monkeypatch.setattr(isolated, "MANY_TASKS", 1)
    found: list[int] = []
    shared = isolated.share
    monkeypatch.setattr(
        isolated, "share", lambda works, at_once: found.append(len(works)) or shared(works, at_once)
    )
    assert list(isolated_times(jobs, 2).items()) == list(one_by_one.items())
    assert found == [2]
