"""How long jobs and tasks waited: from small tables, checked by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from schedbed.deploy.results import metrics
from schedbed.deploy.results.comparison import verdicts
from schedbed.deploy.results.measures import waits
from tests.harness.tables import run_of, table

JOBS: list[dict[str, Any]] = [
    {"job": "a", "user": "ana", "submit": 0.0, "start": 2.0, "finish": 12.0, "maps": 2, "reduces": 1},
    {"job": "b", "user": "bo", "submit": 5.0, "start": 5.5, "finish": 9.0, "maps": 40, "reduces": 0},
    {"job": "c", "user": "bo", "submit": 6.0, "start": None, "finish": 9.0, "maps": 400, "state": "failed"},
]


def attempt(task: str, assigned: float, end: float, **more: Any) -> dict[str, Any]:
    return {"task": task, "job": task[0], "assigned": assigned, "start": assigned, "end": end, **more}


def test_a_job_waits_until_its_first_launch_and_never_launched_ones_do_not_count() -> None:
    found = metrics.waiting(run_of(jobs=JOBS))["jobs"]
    assert (found["mean"], found["median"]) == (1.25, 1.25)
    assert found["per_user"]["ana"]["mean"] == 2.0 and found["per_user"]["bo"]["p95"] == 0.5
    assert found["per_size"]["small"]["mean"] == 2.0 and found["per_size"]["medium"]["mean"] == 0.5
    assert np.isnan(found["per_size"]["large"]["mean"])


def test_a_map_waits_from_its_jobs_submission_and_only_until_its_first_attempt() -> None:
    attempts = [
        attempt("a_m_0", 2.0, 4.0, state="failed"),
        attempt("a_m_0", 4.0, 6.0),
        attempt("a_m_1", 3.0, 5.0),
    ]
    assert sorted(waits.task_waits(table("jobs", JOBS), table("attempts", attempts))) == [2.0, 3.0]


def test_a_reduce_waits_from_the_moment_when_enough_maps_have_ended() -> None:
    maps = [attempt("a_m_0", 0.0, 6.0), attempt("a_m_1", 0.0, 5.0)]
    attempts = [*maps, attempt("a_r_0", 7.5, 12.0, kind="reduce")]
    found = waits.task_waits(table("jobs", JOBS), table("attempts", attempts))
    assert found[-1] == 2.5, "one of two maps is more than the 5% of slow-start"
    lonely = [attempt("a_r_0", 7.5, 12.0, kind="reduce")]
    without = [JOBS[0] | {"maps": 0}]
    assert waits.task_waits(table("jobs", without), table("attempts", lonely)).tolist() == [7.5]


def test_completion_is_told_by_user_and_size() -> None:
    found = metrics.completion(table("jobs", JOBS))
    assert found["mean"] == 8.0 and found["per_user"]["ana"]["median"] == 12.0
    assert list(found["per_size"]) == ["small", "medium"] and found["per_size"]["medium"]["mean"] == 4.0


def test_no_jobs_have_no_waits() -> None:
    found = metrics.waiting(run_of())
    assert np.isnan(found["jobs"]["mean"]) and np.isnan(found["tasks"]["p95"])


@pytest.mark.parametrize(("busy", "told"), [(0.02, True), (0.5, False)])
def test_a_nearly_idle_cluster_is_said_to_have_nothing_to_schedule(busy: float, told: bool) -> None:
    policy = {"slots_busy": {"mean": busy, "repeats": [busy]}, "fidelity": {"trusted": True}}
    summary = {"policies": {"a": policy, "b": policy}, "comparison": {"repeats": 1, "rows": []}}
    assert any("The cluster is 2% busy" in said for said in verdicts(summary)) is told


def test_the_busy_share_of_slots_is_what_attempts_took_of_their_time() -> None:
    attempts = [attempt("a_m_0", 0.0, 6.0), attempt("a_m_1", 6.0, 12.0)]
    assert metrics.slots_busy(run_of(jobs=JOBS[:1], attempts=attempts)) == pytest.approx(12 / (12 * 4))
