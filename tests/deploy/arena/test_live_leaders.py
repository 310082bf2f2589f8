"""Tests the live runs of the arena's leading policies: their choice, their results, and the page that
compares ranks.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from schedbed.deploy.arena import arena_page, contest, live_leaders
from schedbed.deploy.arena.live_leaders import LiveContest, chosen, hold_live, live_courses
from schedbed.deploy.failures import RunFailed
from schedbed.deploy.scenario.resolve import resolve
from schedbed.deploy.worker_fork import WorkBounds

POLICIES = ("delay", "fair", "fifo")
SLOWDOWNS = {
    "process": {"delay": 1.5, "fair": 2.0, "fifo": 4.0},
    "sim": {"delay": 1.4, "fair": 2.2, "fifo": 3.9},
}


def two_seeds() -> LiveContest:
    """Return a live contest of three policies on the workloads for live runs, with two seeds."""
    return LiveContest(POLICIES, tuple(live_courses(2.0)), 2)


def test_leaders_of_each_class_and_the_reference_run_best_first():
    ranks = {"lsap": 1.0, "fair": 2.0, "delay": 3.0, "fifo": 4.0, "hod": 5.0}
    assert chosen({"suite": ["fair"], "drawn": ["lsap", "fair"]}, ranks) == ["lsap", "fair", "fifo"]
    assert chosen({"suite": ["fair"]}, {"fair": 1.0}) == ["fair"]


@pytest.mark.parametrize("cores", [1.0, 2.0, 64.0])
def test_live_workloads_declare_half_of_the_host(cores: float):
    for course in live_courses(cores):
        cluster = resolve(course.seeded(1), policies=["fifo"]).cluster
        declared = sum(node.cores * node.core_speed for node in cluster.nodes)
        assert declared == pytest.approx(min(12.0, cores / 2), rel=0.02)


def test_orders_are_compared_and_runs_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    asked: list[tuple[str, int, str]] = []

    def slowdowns(policies, course, seed, folder, machines):
        asked.append((course.name, seed, machines))
        if (course.name, seed, machines) == ("live-load0.8-even", 2, "process") and len(asked) < 8:
            raise RunFailed("not trusted: fair: The host was busy.")
        return SLOWDOWNS[machines]

    monkeypatch.setattr(live_leaders, "_slowdowns", slowdowns)
    said: list[str] = []
    found = hold_live(two_seeds(), tmp_path, said.append)
    assert (found["runs"], found["rho"], found["rho_of_means"]) == (3, pytest.approx(1), pytest.approx(1))
    assert found["policies"]["fair"] == {"live": pytest.approx(2.0), "simulated": pytest.approx(2.2)}
    assert found["left_out"] == ["live-load0.8-even, seed 2: not trusted: fair: The host was busy."]
    asked.clear()
    asked.extend([("", 0, "")] * 8)
    again = hold_live(two_seeds(), tmp_path, said.append)  # tries what was left out, and nothing else
    assert asked[8:] == [("live-load0.8-even", 2, "process"), ("live-load0.8-even", 2, "sim")]
    assert (again["runs"], again["left_out"]) == (4, [])


def test_the_page_says_whether_the_orders_agree():
    found = {
        "rho": 0.7,
        "ci95": [0.4, 1.0],
        "rho_of_means": 0.9,
        "orders": 6,
        "runs": 6,
        "seeds": 3,
        "workloads": ["w"],
        "left_out": [],
        "policies": {},
    }
    assert "agree on the order of the leaders" in arena_page.rank_agreement(found)
    assert "0.70 [0.40, 1.00]" in arena_page.rank_agreement(found)
    assert "do not agree" in arena_page.rank_agreement(found | {"rho_of_means": 0.5})
    assert "could be judged" in arena_page.rank_agreement(found | {"rho": None})


def test_leaders_run_after_the_simulations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(live_leaders, "_slowdowns", lambda policies, *_: SLOWDOWNS[_[-1]])
    (course,) = live_courses(2.0)[:1]
    finished = contest.Contest(
        policies=POLICIES, courses=(course,), seeds=1, jobs=2, bounds=WorkBounds(300.0, 4 << 30), live_seeds=2
    )
    found = contest.hold(finished, tmp_path, lambda _: None)
    assert found["live"]["runs"] == 4
    assert json.loads((tmp_path / contest.SUMMARY).read_text())["live"] == found["live"]
    assert "Live and simulated agree" in (tmp_path / contest.PAGE).read_text()
