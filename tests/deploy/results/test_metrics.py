"""Tests each metric against an example that is small enough to compute by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedbed.deploy.results import metrics
from schedbed.deploy.results.measures.coded import Coded
from schedbed.deploy.results.measures.series import Intervals, Steps, active_spans
from tests.harness.tables import run_of, table

TWO_USERS = [
    {"job": "job_0001", "user": "ana", "submit": 0.0, "finish": 10.0},
    {"job": "job_0002", "user": "bo", "submit": 2.0, "finish": 6.0},
]


def test_makespan_of_all_and_of_each_user() -> None:
    assert metrics.makespan(table("jobs", TWO_USERS)) == {"all": 10.0, "per_user": {"ana": 10.0, "bo": 4.0}}


def test_completion_counts_only_jobs_that_succeeded() -> None:
    failed = {"submit": 0.0, "finish": 99.0, "state": "failed"}
    times = metrics.completion(table("jobs", [*TWO_USERS, failed]))
    assert (times["mean"], times["median"], times["p95"]) == (7.0, 7.0, pytest.approx(9.7))


def test_without_jobs_every_figure_is_there_and_unknown() -> None:
    figures = metrics.measure(run_of())
    assert math.isnan(figures["makespan_s"]["all"]) and math.isnan(figures["completion_s"]["median"])
    assert math.isnan(figures["locality"]["bytes"]["node"]) and math.isnan(figures["utilisation"]["cpu"])
    assert figures["deadlines"] == {"jobs": 0.0, "late": 0.0, "exceeded": 0.0}
    assert figures["fair_share_ratio"] == {"per_user": {}, "jain": 1.0}


def test_locality_by_bytes_and_by_tasks_leaves_out_reduces_failures_and_maps_without_input() -> None:
    shares = metrics.locality(
        table(
            "attempts",
            [
                {"locality": "node", "length": 300, "end": 1.0},
                {"locality": "off", "length": 100, "end": 1.0},
                {"locality": "rack", "length": 900, "end": 1.0, "state": "failed"},
                {"locality": "off", "length": 0, "end": 1.0},
                {"locality": "off", "length": 50, "end": 1.0, "kind": "reduce"},
            ],
        )
    )
    assert shares["bytes"] == {"node": 0.75, "rack": 0.0, "off": 0.25}
    assert shares["tasks"] == {"node": 0.5, "rack": 0.0, "off": 0.5}


def test_fair_share_is_running_slots_over_slots_per_active_user() -> None:
    # 4 slots. Ana holds 2 from 0 to 10; alone (fair share 4) until 2 and after 6, with bo (fair share 2) between.
    run = run_of(
        jobs=TWO_USERS,
        attempts=[
            {"start": 0.0, "end": 10.0},
            {"start": 0.0, "end": 10.0},
            {"job": "job_0002", "start": 4.0, "end": 6.0},
        ],
    )
    fair = metrics.fairness(run)
    assert fair["per_user"]["ana"] == pytest.approx((6 * 0.5 + 4 * 1.0) / 10)
    assert fair["per_user"]["bo"] == pytest.approx(2 * 0.5 / 4)
    alone, both = 0.5, (2 + 1) ** 2 / (2 * (4 + 1))  # Jain: 2 s of ana alone beside an idle bo, 2 s of both
    assert fair["jain"] == pytest.approx((2 * alone + 2 * both) / 4)


def test_deadlines_count_the_late_and_by_which_share_they_were_late() -> None:
    jobs = table(
        "jobs",
        [
            {"submit": 10.0, "deadline": 20.0, "finish": 25.0},  # T = 15, D = 10
            {"submit": 0.0, "deadline": 20.0, "finish": 20.0},
            {"submit": 0.0, "deadline": 5.0, "finish": 3.0, "state": "failed"},
            {"submit": 0.0, "deadline": 5.0, "state": "running"},
            {"submit": 0.0, "deadline": 500.0, "state": "running"},
            {"submit": 0.0, "finish": 20.0},
        ],
    )
    assert metrics.deadlines(jobs, end_s=30.0) == {"jobs": 5.0, "late": 3.0, "exceeded": 0.5}


def test_utilisation_weighs_a_heartbeat_by_the_time_it_speaks_for() -> None:
    heartbeats = table(
        "heartbeats",
        [
            {"t": 0.0, "cpu_util": 0.9},
            {"t": 3.0, "cpu_util": 0.2},
            {"t": 4.0, "cpu_util": 1.0},
            {"t": 0.0, "node": "n2"},
            {"t": 4.0, "node": "n2", "cpu_util": 0.0},
        ],
    )
    assert metrics.utilisation(heartbeats)["cpu"] == pytest.approx((3 * 0.2 + 1 * 1.0 + 4 * 0.0) / 8)


def test_concurrency_is_running_attempts_a_node_over_the_makespan() -> None:
    run = run_of(
        jobs=TWO_USERS, attempts=[{"start": 0.0, "end": 5.0}, {"start": 5.0, "end": 10.0}, {"end": 3.0}]
    )
    assert metrics.concurrency(run) == pytest.approx(10 / 10 / 2)


def test_waste_is_all_cpu_but_that_of_each_tasks_last_success() -> None:
    attempts = table(
        "attempts",
        [
            {"task": "a", "end": 1.0, "cpu_s": 1.0},
            {"task": "a", "end": 5.0, "cpu_s": 2.0},  # its output was lost and it ran again
            {"task": "b", "end": 2.0, "cpu_s": 4.0, "state": "failed"},
            {"task": "b", "end": 3.0, "cpu_s": 8.0},
            {"task": "c", "end": 3.0, "cpu_s": 16.0, "state": "killed"},
        ],
    )
    assert metrics.waste_cpu(attempts) == pytest.approx(1.0 + 4.0 + 16.0)


def test_busy_times_of_a_user_join_where_jobs_overlap() -> None:
    jobs = table("jobs", [{"submit": 0.0, "finish": 4.0}, {"submit": 3.0, "finish": 5.0}, {"submit": 8.0}])
    assert active_spans(jobs, 9.0) == [(0.0, 5.0), (8.0, 9.0)]


SPANS = st.lists(  # quarters of a second, so that sums are exact
    st.tuples(
        st.integers(0, 200).map(lambda q: q / 4),
        st.integers(1, 80).map(lambda q: q / 4),
        st.sampled_from("abc"),
    ),
    max_size=12,
)


@given(SPANS, st.lists(st.integers(-20, 360).map(lambda q: q / 4), max_size=8))
def test_integrals_and_counts_agree_with_counting_one_by_one(
    spans: list[tuple[float, float, str]], times: list[float]
) -> None:
    start = np.array([s for s, _, _ in spans], float)
    end = np.array([s + d for s, d, _ in spans], float)
    steps = Intervals(start, end, Coded.of([g for _, _, g in spans])).running()
    at = np.array(times, float)
    areas = [sum(min(max(t - s, 0.0), d) for s, d, _ in spans) for t in times]
    assert np.allclose(steps.integral(at), areas)
    counts = [sum(s <= t < s + d for s, d, _ in spans) for t in times]
    assert steps.at(at).tolist() == counts


@given(SPANS)
def test_jain_is_the_formula_at_every_moment(spans: list[tuple[float, float, str]]) -> None:
    start = np.array([s for s, _, _ in spans], float)
    tasks = Intervals(start, start + [d for _, d, _ in spans], Coded.of([g for _, _, g in spans]))
    three = Steps(np.array([-1.0]), np.array([3.0]))
    index = tasks.jain_steps(three)
    np.testing.assert_array_equal(tasks.jain_at(three, np.append(-2.0, index.t)), [math.nan, *index.value])
    groups = tasks.group.names[tasks.group.codes]
    for t, value in zip(index.t, index.value, strict=True):
        x = [
            sum(s <= t < e for s, e, g in zip(tasks.start, tasks.end, groups, strict=True) if g == u)
            for u in "abc"
        ]
        if sum(x):
            assert value == pytest.approx(sum(x) ** 2 / (3 * sum(v * v for v in x)))
        else:
            assert math.isnan(value)
