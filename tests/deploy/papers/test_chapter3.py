"""Tests the experiments of xu2015, chapter 3, on tiny runs, and the jobs that the experiments draw."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from schedbed.deploy.papers import chapter3, paper_file
from schedbed.deploy.papers.bench import Bench
from schedbed.deploy.papers.chapter3 import input_locality, job_choice, job_deadlines, runs, user_shares
from schedbed.deploy.papers.experiment import Measured
from schedbed.scheduler.models.johnson import PlannedStages
from schedbed.tasks.chance import chance

ABOUT = paper_file.load("chapter3").experiments


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path, machines="sim", repeats=1, seed=3)


def measured(bench: Bench, name: str) -> Measured:
    (experiment,) = (each for each in chapter3.EXPERIMENTS if each.name == name)
    return experiment.measure(bench)


def test_repeats_draw_jobs_of_their_own_from_their_seed() -> None:
    for draw in (
        lambda seed: job_choice.coshh_jobs(seed),
        lambda seed: job_deadlines.drawn_jobs(seed),
        lambda seed: job_deadlines.stream_jobs(seed, 0.9),
    ):
        assert draw(1) == draw(1) != draw(2)


def test_lone_jobs_of_mrcp_are_the_same_further_apart() -> None:
    stream, lone = job_deadlines.stream_jobs(5, 0.9), job_deadlines.stream_jobs(5, 0.9, apart=50)
    assert [{**job, "submit": ""} for job in stream] == [{**job, "submit": ""} for job in lone]
    last, last_lone = (float(made[-1]["submit"][:-1]) - job_deadlines.STREAM_S for made in (stream, lone))
    assert last_lone == pytest.approx(50 * last, rel=1e-4)


def test_a_job_is_late_after_its_deadline() -> None:
    ends = ((110.0, 100.0), (90.0, 100.0), (500.0, None), (341.0, 100.0))
    finished: Any = SimpleNamespace(
        of=lambda _: SimpleNamespace(jobs=pd.DataFrame(ends, columns=["finish", "deadline"]))
    )
    assert job_deadlines.late([finished], "fifo") == [2]


def test_each_job_of_a_batch_has_run_once() -> None:
    jobs = job_choice.batches(2, name="uneven")["workload"]["jobs"]
    earlier, batch = jobs[:20], jobs[20:]
    assert [job["name"] for job in earlier] == [job["name"] for job in batch]
    assert {(job["maps"], job["reduces"], job["submit"]) for job in earlier} == {(1, 1, "0s")}


def test_no_order_beats_the_work_over_the_slots_or_the_longest_job() -> None:
    many = PlannedStages("many", maps=160, map_s=10, reduces=16, reduce_s=5)
    assert job_choice.least_s([many]) == 105  # ten waves of maps, then a reduce
    lone = PlannedStages("lone", maps=1, map_s=300, reduces=1, reduce_s=300)
    assert job_choice.least_s([many, lone]) == 600


def test_a_plan_of_one_job_is_earliest_deadline_first(bench: Bench) -> None:
    due = {"first": 400, "second": 200, "third": 300}
    jobs = [
        runs.job(name, "u", number, (4, 20.0), deadline=f"{seconds}s")
        for number, (name, seconds) in enumerate(due.items())
    ]
    long = runs.job("busy", "u", 0, (2, 10.0), deadline="100s")
    finished = bench.run(
        "edf", {"cluster": runs.nodes(1, 2, 1), "workload": {"jobs": [long, *jobs]}, "policies": [runs.EDF]}
    )
    ended = finished.of(runs.EDF).jobs.sort_values("finish")["name"].tolist()
    assert ended == ["busy", "second", "third", "first"]


def test_gains_are_percent_of_the_other_figure(bench: Bench) -> None:
    jobs = [runs.job("a", "u", 0, (2, 10.0)), runs.job("b", "u", 0, (2, 10.0))]
    finished = [
        bench.run(
            name,
            {"cluster": runs.nodes(count, 1, 1), "workload": {"jobs": jobs}, "policies": ["fifo"]},
        )
        for name, count in (("one", 1), ("two", 2))
    ]
    one, two = runs.figures_of(finished, "fifo", "completion_s", "mean")
    found = runs.gains(finished[1:], "fifo", "fifo", "completion_s", "mean", than_runs=finished[:1])
    assert found == [pytest.approx(100 * (1 - two / one))]
    assert 40 < found[0] < 60


def test_old_nodes_are_the_second_half_and_slow_down_what_computes(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_choice, "JOBS", 3)
    measured = job_choice.coshh(bench)
    assert set(measured.values) == set(ABOUT["coshh"].values)
    finished = bench.run("coshh", {})
    tables = finished.of("fifo")
    computing = tables.jobs[tables.jobs["name"].str.startswith("compute")]["job"]
    maps = tables.attempts[(tables.attempts["kind"] == "map") & tables.attempts["job"].isin(computing)]
    took = (maps["end"] - maps["start"]).groupby(maps["node"].isin(("n1", "n2", "n3"))).mean()
    assert took[False] > 1.3 * took[True]


def test_slots_and_waiting_maps_are_counted_by_user_and_second() -> None:
    """Ana holds two slots for 10 s and a third map waits for 5 s of them; Bo's map waits all the time."""
    jobs = pd.DataFrame({"job": ["a", "b"], "user": ["ana", "bo"], "submit": [0.0, 5.0], "maps": [3, 1]})
    rows = [
        ("a", 0, 10, "killed"),
        ("a", 0, 10, "succeeded"),
        ("a", 10, 20, "succeeded"),
        ("a", 15, 20, "succeeded"),
    ]
    attempts = pd.DataFrame(rows, columns=["job", "assigned", "end", "state"]).assign(kind="map")
    finished: Any = SimpleNamespace(of=lambda _: SimpleNamespace(jobs=jobs, attempts=attempts))
    use = user_shares.SlotUse(finished, "fifo")
    assert use.held["ana"].tolist() == [2] * 10 + [1] * 5 + [2] * 5 and not use.held["bo"].any()
    assert use.waiting["ana"].tolist() == [1] * 10 + [1] * 5 + [0] * 5  # the killed map waits again
    assert use.waiting["bo"].tolist() == [0] * 5 + [1] * 15
    assert use.between("ana", 10, 20) == 1.5 and use.used() == pytest.approx(
        100 * 1.75 / user_shares.MAP_SLOTS
    )
    assert use.starved() == 100  # 16 slots


def test_equation_6_asks_for_more_slots_in_the_three_cases() -> None:
    """Before, (20 + 200) s in 100 s are 2.2 slots, of which four are there."""
    found = {name: each.value for name, each in job_deadlines.more_slots().items()}
    assert found == pytest.approx({"longer": 2.32 - 2.2, "unstarted": 3.2 - 2.2, "nearer": 4.4 - 2.2})


def test_bids_buy_slots_until_the_budget_is_spent(bench: Bench) -> None:
    found = measured(bench, "dp")
    assert set(found.values) == set(ABOUT["dp"].values)
    assert found.samples("bought") == [pytest.approx(3, rel=0.1)] and found.samples("after") == [0]


def test_hod_lends_nothing(bench: Bench) -> None:
    found = measured(bench, "hod")
    assert set(found.values) == set(ABOUT["hod"].values)
    assert found.samples("starved_more")[0] > 10


def test_availability_is_of_all_blocks_of_a_file(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(input_locality, "POPULAR_JOBS", 6)
    found = input_locality.cdrm(bench)
    assert set(found.values) == set(ABOUT["cdrm"].values)
    assert 2 <= found.samples("replicas")[0] <= 3
    assert found.samples("short") == [0]
    monkeypatch.setattr(input_locality, "AVAILABLE", 0.999)  # more than was asked for
    assert input_locality.cdrm(bench).samples("short")[0] > 0


@pytest.mark.slow  # simulates small runs of experiments
@pytest.mark.parametrize("name", ["mimp", "mrcp", "pd"])
def test_streams_report_what_the_yaml_knows(bench: Bench, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    if name == "mrcp":
        pytest.importorskip("ortools")
    for jobs in ("JOBS", "STREAMED"):
        monkeypatch.setattr(job_deadlines, jobs, 3)
    assert set(measured(bench, name).values) == set(ABOUT[name].values)


@pytest.mark.slow  # simulates small runs of experiments
def test_replicas_report_what_the_yaml_knows(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(input_locality, "POPULAR_JOBS", 6)
    popular = input_locality.scarlett(bench)
    kept = input_locality.dare(bench)
    assert set(popular.values) == set(ABOUT["scarlett"].values)
    assert set(kept.values) == set(ABOUT["dare"].values)
    assert kept.samples("most_times") == [pytest.approx(100 / kept.samples("local_plain")[0])]
    assert popular.samples("local_plain") == kept.samples("local_plain")
    assert popular.samples("local_most")[0] >= popular.samples("local_plain")[0]


@pytest.mark.slow  # simulates whole experiments
@pytest.mark.parametrize("name", ["balancedpool", "lsps", "lsap"])
def test_batches_report_what_the_yaml_knows(bench: Bench, name: str) -> None:
    found = measured(bench, name)
    assert set(found.values) == set(ABOUT[name].values)
    if name == "balancedpool":
        for jobs in ("even", "uneven"):
            assert 0 <= found.samples(f"{jobs}_room")[0] < 100
    if name == "lsap":
        assert found.samples("most_local") == [
            max(found.samples("idle_local")[0], found.samples("full_local")[0])
        ]


def test_uneven_batches_mix_the_two_sizes() -> None:
    names = [job["name"].rstrip("0123456789") for job in job_choice.uneven_batch(chance(1, "mix"))]
    assert sorted(names) == ["big"] * 10 + ["small"] * 10
    assert names != sorted(names)
