"""Tests metrics of a part of a run: jobs are selected by submission time, the cluster's use by time."""

from __future__ import annotations

import json
from typing import Any

import pytest

from schedbed.deploy.options import RunOptions
from schedbed.deploy.results.measures.window import Window, sentence
from schedbed.deploy.results.table import notes
from schedbed.deploy.scenario.resolve import resolve
from schedbed.deploy.whole_run import run_scenario
from schedbed.tasks.errors import BadInput

JOB = {"app": "synthetic", "maps": 2, "map": {"cpu": "4s"}, "user": "ana"}


def scenario(**more: Any) -> dict[str, Any]:
    """Return a scenario of five jobs, submitted 10 s apart, of which the third takes four times as long.

    Each of the other jobs would end before the next is submitted.
    """
    jobs = [{**JOB, "submit": f"{10 * place}s"} for place in range(5)]
    jobs[2] = {**jobs[2], "map": {"cpu": "16s"}, "user": "bo"}
    node = {"cores": 2, "core_speed": 1, "map_slots": 2, "reduce_slots": 1}
    return {
        "cluster": {"nodes": 1, "node": node, "heartbeat": "100ms"},
        "blocks": {"replication": 1},
        "workload": {"jobs": jobs},
        "policies": ["fifo"],
        **more,
    }


def figures(tmp_path: Any, **more: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Simulate the scenario; return its summary, and the part of the summary about its only policy."""
    folder = run_scenario(resolve(scenario(**more)), RunOptions(out=tmp_path, machines="sim", live=False))
    summary = json.loads((folder / "summary.json").read_text())
    return summary, summary["policies"]["fifo"]


def test_jobs_submitted_in_the_window_count(tmp_path: Any) -> None:
    whole, everything = figures(tmp_path / "whole")
    summary, found = figures(tmp_path / "part", measure={"from": "10s", "until": "30s"})
    assert "measure" not in whole
    assert summary["measure"] == {"from_s": 10.0, "until_s": 30.0, "jobs": 2, "jobs_left_out": 3}
    assert found["jobs"]["submitted"]["mean"] == 2
    assert list(found["completion_s"]["per_user"]) == ["ana", "bo"]
    # The third job ends at about 36 s: after the window, and it counts all the same.
    assert found["makespan_s"]["mean"] == pytest.approx(26, abs=1)
    assert everything["makespan_s"]["mean"] == pytest.approx(44, abs=1)
    assert found["completion_s"]["mean"]["mean"] == pytest.approx((4 + 16) / 2, abs=0.5)
    # From 10 s to 30 s the two map slots were in use for 4 s and 10 s.
    assert found["concurrency"]["mean"] == pytest.approx(2 * 14 / 20, abs=0.1)
    assert any("2 jobs submitted from 10 s until 30 s" in note for note in notes(summary))
    assert not any("submitted from" in note for note in notes(whole))


def test_only_a_warm_up_is_left_out(tmp_path: Any) -> None:
    summary, found = figures(tmp_path, measure={"from": "15s"})
    assert summary["measure"] == {"from_s": 15.0, "until_s": None, "jobs": 3, "jobs_left_out": 2}
    assert found["jobs"]["succeeded"]["mean"] == 3
    assert "from 15 s on" in sentence(summary["measure"])


def test_waits_have_users_and_sizes_whose_slots_others_held(tmp_path: Any) -> None:
    """The fourth job waits for the third job's slots.

    The wait is reported, although the third is outside the window.
    """
    _, found = figures(tmp_path, measure={"from": "30s", "until": "40s"})
    tasks = found["wait_s"]["tasks"]
    assert tasks["per_user"]["ana"]["mean"]["mean"] == pytest.approx(6, abs=1)
    causes = {cause: leaf["mean"] for cause, leaf in tasks["per_user"]["ana"]["causes"].items()}
    assert causes["slot"] + causes["share"] == pytest.approx(6, abs=1)
    assert list(tasks["per_size"]) == ["small"]
    assert sum(causes.values()) == pytest.approx(tasks["mean"]["mean"])


def test_times_are_scaled_and_kept() -> None:
    resolved = resolve(scenario(scale=0.5, measure={"from": "10s", "until": "30s"}))
    assert resolved.measure == {"from_s": 5.0, "until_s": 15.0}
    assert resolve(resolved.to_json()).measure == resolved.measure
    assert Window.of(None) is None
    assert [Window(from_s=1, until_s=2).holds(at) for at in (0.9, 1, 1.9, 2)] == [False, True, True, False]


@pytest.mark.parametrize(
    ("measure", "said"),
    [
        ({"from": "20s", "until": "20s"}, "until is not after from"),
        ({"from": "1h"}, "none of the 5 jobs is submitted in it"),
        ({"start": "1s"}, "start"),
    ],
)
def test_windows_that_hold_nothing_are_refused(measure: dict[str, str], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        resolve(scenario(measure=measure))
