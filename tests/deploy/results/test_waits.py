"""Tests the waiting times of jobs and tasks with small tables, computed by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from schedbed.deploy.results import metrics
from schedbed.deploy.results.comparison import verdicts
from schedbed.deploy.results.measures import waits
from schedbed.deploy.results.measures.wait_causes import task_causes
from tests.harness.tables import run_of, table

JOBS: list[dict[str, Any]] = [
    {"job": "a", "user": "ana", "submit": 0.0, "start": 2.0, "finish": 12.0, "maps": 2, "reduces": 1},
    {"job": "b", "user": "bo", "submit": 5.0, "start": 5.5, "finish": 9.0, "maps": 40, "reduces": 0},
    {"job": "c", "user": "bo", "submit": 6.0, "start": None, "finish": 9.0, "maps": 400, "state": "failed"},
]


def attempt(task: str, assigned: float, end: float, **more: Any) -> dict[str, Any]:
    return {"task": task, "job": task[0], "assigned": assigned, "start": assigned, "end": end, **more}


def waits_of(jobs: list[dict[str, Any]], attempts: list[dict[str, Any]]) -> list[float]:
    """Return the waits of tasks, in the order of their first attempts."""
    return waits.task_waits(
        waits.first_assignments(table("jobs", jobs), table("attempts", attempts))
    ).tolist()


def test_a_job_waits_until_its_first_launch_and_never_launched_ones_do_not_count() -> None:
    found = metrics.measure_waits(run_of(jobs=JOBS))["wait_s"]["jobs"]
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
    assert sorted(waits_of(JOBS, attempts)) == [2.0, 3.0]


def test_a_reduce_waits_from_the_moment_when_enough_maps_have_ended() -> None:
    maps = [attempt("a_m_0", 0.0, 6.0), attempt("a_m_1", 0.0, 5.0)]
    attempts = [*maps, attempt("a_r_0", 7.5, 12.0, kind="reduce")]
    found = waits_of(JOBS, attempts)
    assert found[-1] == 2.5, "one of two maps is more than the 5% of slow-start"
    lonely = [attempt("a_r_0", 7.5, 12.0, kind="reduce")]
    without = [JOBS[0] | {"maps": 0}]
    assert waits_of(without, lonely) == [7.5]


def test_completion_is_told_by_user_and_size() -> None:
    found = metrics.completion(table("jobs", JOBS))
    assert found["mean"] == 8.0 and found["per_user"]["ana"]["median"] == 12.0
    assert list(found["per_size"]) == ["small", "medium"] and found["per_size"]["medium"]["mean"] == 4.0


def test_no_jobs_have_no_waits() -> None:
    found = metrics.measure_waits(run_of())["wait_s"]
    assert np.isnan(found["jobs"]["mean"]) and np.isnan(found["tasks"]["p95"])


@pytest.mark.parametrize(("busy", "told"), [(0.02, True), (0.5, False)])
def test_a_nearly_idle_cluster_is_said_to_have_nothing_to_schedule(busy: float, told: bool) -> None:
    policy = {"slots_busy": {"mean": busy, "repeats": [busy]}, "fidelity": {"trusted": True}}
    summary = {"policies": {"a": policy, "b": policy}, "comparison": {"repeats": 1, "rows": []}}
    assert any("The cluster is 2% busy" in said for said in verdicts(summary)) is told


def test_the_busy_share_of_slots_is_what_attempts_took_of_their_time() -> None:
    attempts = [attempt("a_m_0", 0.0, 6.0), attempt("a_m_1", 6.0, 12.0)]
    assert metrics.slots_busy(run_of(jobs=JOBS[:1], attempts=attempts)) == pytest.approx(12 / (12 * 4))


SHARED: list[dict[str, Any]] = [
    {"job": "a", "user": "ana", "submit": 0.0, "start": 0.0, "finish": 20.0, "maps": 4},
    {"job": "b", "user": "bo", "submit": 1.0, "start": 4.0, "finish": 20.0, "maps": 1},
]
ON_TWO_SLOTS = [
    attempt("a_m_0", 0.0, 4.0),
    attempt("a_m_1", 0.0, 6.0),
    attempt("b_m_0", 4.0, 9.0),
    attempt("a_m_2", 7.0, 12.0),
]


def causes_of(attempts: list[dict[str, Any]], *decisions: dict[str, Any]) -> dict[str, list[float]]:
    tables = (table("jobs", SHARED), table("attempts", attempts), table("decisions", decisions))
    first = waits.first_assignments(*tables[:2])
    found = task_causes(*tables, {"map": 2, "reduce": 2}, 20.0, first)
    whole = waits.task_waits(first)
    assert np.array([*found.values()]).sum(axis=0) == pytest.approx(whole), "causes are the whole wait"
    return {cause: seconds.tolist() for cause, seconds in found.items()}


def test_a_wait_is_told_apart_by_who_held_the_slots() -> None:
    found = causes_of(ON_TWO_SLOTS)
    assert found["slot"] == [0, 0, 3, 1], "bo while ana had both; ana while she was alone"
    assert found["share"] == [0, 0, 0, 5], "from bo's submission until a slot is free, ana has her half"
    assert found["offer"] == [0, 0, 0, 1] and found["data"] == found["splitting"] == [0, 0, 0, 0]


def test_a_job_that_was_passed_over_waits_for_what_the_skip_says_until_its_next_launch() -> None:
    late = {"job": "a", "t": 4.0, "reason": "waits for a local node: 0.0 of 3.0 s"}
    limit = {"job": "a", "t": 6.5, "reason": "ana has the user's limit of 2 slots"}
    found = causes_of(ON_TWO_SLOTS, late, limit)
    assert found["data"] == [0, 0, 0, 2.5] and found["share"] == [0, 0, 0, 3 + 0.5]
    assert found["slot"] == [0, 0, 3, 1] and found["offer"] == [0, 0, 0, 0]


def test_the_rest_of_a_split_map_waits_for_splitting_from_the_split_on() -> None:
    parts = [
        attempt("a_m_0", 1.0, 3.0, split_of="a_m_0"),
        attempt("a_m_1", 2.5, 5.0, split_of="a_m_0"),
    ]
    found = causes_of(parts)
    assert found["splitting"] == [0, 1.5] and found["offer"] == [1, 1]


def test_the_class_of_a_job_is_by_its_maps_and_reduces() -> None:
    jobs = pd.DataFrame({"maps": [0, 10, 10, 99, 100, 5000], "reduces": [0, 0, 1, 1, 1, 5000]})
    assert waits.sizes_of(jobs) == ["small", "small", "medium", "medium", "large", "large"]
    assert waits.sizes_of(jobs[:0]) == []
