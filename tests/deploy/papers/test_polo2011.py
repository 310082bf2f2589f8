"""RAS's experiments on small runs: the reductions, and the policy that Fair's sweep is made with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from schedbed.deploy.papers import paper_file
from schedbed.deploy.papers.bench import Bench
from schedbed.deploy.papers.polo2011 import (
    fair_slots,
    fig2_utility,
    fig3_makespans,
    fig4_running_tasks,
    fig5_utilities,
    fig6_goals,
    nine_jobs,
    seeks,
    table1_alone,
)

ABOUT = paper_file.load("polo2011").experiments


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Of the nine jobs a fortieth, on four nodes, under Fair with one and four slots and under RAS."""
    full = nine_jobs.job

    def small(*arguments: Any, **options: Any) -> dict[str, Any]:
        job = full(*arguments, **options)
        return {**job, "maps": max(2, job["maps"] // 40), "reduces": min(2, job["reduces"])}

    for module in (nine_jobs, table1_alone):
        monkeypatch.setattr(module, "job", small)
    for module in (nine_jobs, fig3_makespans, fig4_running_tasks):
        if hasattr(module, "SLOTS"):
            monkeypatch.setattr(module, "SLOTS", (1, 4))
    monkeypatch.setattr(nine_jobs, "NODES", 4)
    return Bench(tmp_path, machines="sim", repeats=1, seed=5)


def test_the_utility_is_as_the_text_says() -> None:
    measured = fig2_utility.measure(Bench(Path(), machines="sim", repeats=1, seed=0))
    assert {key: measured.samples(key)[0] for key in measured.values} == {
        "required": 0,
        "all": 1,
        "no_reduce": 1,
        "falls": 0,
        "none": 1,
    }
    assert fig2_utility.utility(5, 10) == pytest.approx(-0.4628, abs=1e-4)  # log 5 / log 20 - 1


def test_fair_keeps_to_fewer_slots_than_the_node_has(tmp_path: Path) -> None:
    asked = nine_jobs.scenario(
        [{"app": "synthetic", "maps": 40, "map": {"cpu": "10s"}, "reduces": 0}],
        [fair_slots.fair_spec(1), fair_slots.fair_spec(3)],
        live=False,
    )
    asked["cluster"]["nodes"] = 4
    played = Bench(tmp_path, machines="sim", repeats=1, seed=0).play("slots", asked)
    for policy, most in zip(played.policies, (1, 3), strict=True):
        attempts = played.of(policy).attempts
        for _, mine in attempts.groupby("node"):
            begins = ((t, sum((mine["assigned"] <= t) & (t < mine["end"]))) for t in mine["assigned"])
            assert max(running for _, running in begins) == most


def test_goals_are_since_the_submission() -> None:
    tight = nine_jobs.goals(tight=True)
    assert (tight["J1"], tight["J2"], tight["J9"]) == (3000, 750, 500)
    assert set(nine_jobs.goals(tight=False).values()) == {nine_jobs.RELAXED_S}


@pytest.mark.long  # simulates whole experiments
def test_experiments_1_and_2_report_what_the_yaml_knows(bench: Bench) -> None:
    sweep = fig3_makespans.measure(bench)
    assert set(sweep.values) == set(ABOUT["fig3"].values)
    fair_s, (ras_s,) = sweep.series["fair"], sweep.series["ras"]
    assert sweep.series["slots"] == (1, 4)
    assert sweep.samples("gain_most") == [pytest.approx(100 * (max(fair_s)[0] / ras_s - 1))]
    assert sweep.samples("best_slots") == [4.0 if fair_s[1] < fair_s[0] else 1.0]

    costly = seeks.measure(bench)
    assert set(costly.values) == set(ABOUT["seeks"].values)
    assert costly.samples("gain0") == sweep.samples(
        "gain_four"
    )  # the one number of slots that both have here
    (with_seeks,), (without,) = costly.series["fair"][-1][0], fair_s[1:]
    assert with_seeks > without[0]

    over_time = fig4_running_tasks.measure(bench)
    assert set(over_time.values) == set(ABOUT["fig4"].values)
    assert 0 <= over_time.samples("fewer")[0] <= 100
    ras = over_time.series["runs"]["RAS"]
    assert ras["sort maps"].max() > 0 and ras["cpu"].max() > 0

    utilities = fig5_utilities.measure(bench)
    assert set(utilities.values) == set(ABOUT["fig5"].values)
    assert set(utilities.series["utilities"]["name"]) <= set(nine_jobs.JOBS)
    assert utilities.samples("satisfied")[0] > 50

    tight = fig6_goals.measure(bench)
    assert set(tight.values) == set(ABOUT["fig6"].values)
    met = sum(
        tight.samples(name)[0] <= goal
        for name, goal in zip(nine_jobs.JOBS, nine_jobs.said()["goals"].numbers, strict=True)
    )
    assert tight.samples("met") == [met]


@pytest.mark.long  # seconds
def test_jobs_alone_take_their_time_and_maps_use_what_they_are_built_to(bench: Bench) -> None:
    measured = table1_alone.measure(bench)
    assert set(measured.values) <= set(ABOUT["table1"].values)
    assert measured.samples("combine_map_cpu") == [pytest.approx(25, rel=0.2)]
    assert measured.samples("combine_map_io") == [pytest.approx(10, rel=0.2)]
    assert measured.samples("J5_alone")[0] >= nine_jobs.MAPS_S["select"]
