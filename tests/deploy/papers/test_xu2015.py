"""Tests the experiments of xu2015 (DTSS) on small runs, and the values computed from given tables."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from schedbed.deploy.papers import paper_file
from schedbed.deploy.papers.bench import Bench
from schedbed.deploy.papers.xu2015 import dtss_figures, larger_clusters, twenty_jobs
from schedbed.deploy.results.metrics import RunTables

ABOUT = paper_file.load("xu2015").experiments


def run(attempts: list[dict[str, object]], jobs: list[dict[str, object]]) -> RunTables:
    tables = {"attempts": pd.DataFrame(attempts), "jobs": pd.DataFrame(jobs)}
    return RunTables("p", 0, {**tables, "heartbeats": pd.DataFrame({"t": [0.0]})}, ())


def attempt(task: str, began: float, end: float, locality: str, **more: object) -> dict[str, object]:
    common = {"job": "j", "task": task, "kind": "map", "state": "succeeded", "split_of": None, "offset": 0}
    return {**common, "assigned": began, "start": began, "end": end, "locality": locality, **more}


def test_each_repeat_draws_its_own_jobs() -> None:
    first, second = (twenty_jobs.jobs(seed) for seed in (1, 2))
    assert first == twenty_jobs.jobs(1) != second
    for jobs in (first, second):
        assert [job["user"] for job in jobs[:3]] == ["user2", "user1", "user0"]
        assert all(5 <= job["maps"] <= 10 for job in jobs) and len(jobs) == 20


def test_n_and_m_are_of_local_and_other_maps_and_d_from_the_split_to_the_rest() -> None:
    maps = [attempt("a", 0, 4, "node"), attempt("b", 0, 6, "node"), attempt("c", 0, 20, "off")]
    assert dtss_figures.whole_maps(run(maps, [])) == (5, 20)
    parts = [
        attempt("a1", 10, 15, "off", split_of="a", offset=0),
        attempt("a2", 17, 20, "node", split_of="a", offset=16),
        attempt("b1", 10, 15, "off", split_of="b", offset=0),
        attempt("b2", 90, 95, "off", split_of="b", offset=16),  # never found its input
        attempt("c", 0, 5, "node"),
    ]
    assert dtss_figures.waited(run(parts, [])) == 7


def test_the_fair_share_ratio_counts_users_from_their_first_job() -> None:
    jobs = [
        {"job": "j", "user": "user2", "submit": 0.0, "finish": 600.0},
        {"job": "k", "user": "user1", "submit": 30.0, "finish": 600.0},
    ]
    maps = [attempt("a", 0, 600, "node"), attempt("b", 30, 600, "node", job="k")]
    table = run(maps, jobs)
    held = twenty_jobs.slots(table, twenty_jobs.EPOCH_S)
    assert len(held["user2"]) == 100 and held["user0"].sum() == 0
    found = twenty_jobs.ratios(held, table, twenty_jobs.EPOCH_S)
    np.testing.assert_allclose(found["user2"], [0.2] * 5 + [0.4] * 15)
    np.testing.assert_allclose(found["user1"], [0.4] * 15)
    assert set(found) == {"user1", "user2"}


def test_cells_of_a_table_are_compared_with_the_same_epochs() -> None:
    held = {"user1": np.array([9.0] * 5 + [1.0] * 15 + [9.0] * 10), "user2": np.zeros(30)}
    printed = {"user1": np.ones(15), "user2": np.array([0.0] * 19 + [7.0])}
    assert twenty_jobs.off_table(held, printed) == pytest.approx(7 / 35)


def test_epochs_end_with_the_last_map_before_scale() -> None:
    rows = [attempt("a", 0, 60, "node"), attempt("r", 0, 600, "", kind="reduce")]
    assert twenty_jobs.epochs(run(rows, []), scale=0.5) == 20


def test_whole_maps_and_rests_that_were_local_are_told_apart() -> None:
    maps = [
        attempt("a1", 0, 5, "off", split_of="a", offset=0),
        attempt("a2", 7, 9, "node", split_of="a", offset=16),
        attempt("b1", 0, 5, "off", split_of="b", offset=64),
        attempt("b2", 7, 9, "off", split_of="b", offset=80),
        attempt("c", 0, 5, "node", offset=128),
    ]
    assert dtss_figures.whole_and_rests(run(maps, [])) == (20, 50)
    assert dtss_figures.whole_and_rests(run(maps[-1:], [])) == (100, 100)
    assert dtss_figures.tasks_a_map(run(maps, [])) == pytest.approx(5 / 3)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Return a bench that simulates experiments with five jobs and one repeat."""
    monkeypatch.setattr(twenty_jobs, "JOBS", 5)
    return Bench(tmp_path, machines="sim", repeats=1, seed=3)


@pytest.mark.slow  # simulates whole experiments
def test_all_experiments_under_skew_report_what_the_yaml_knows(bench: Bench) -> None:
    makespans = dtss_figures.fig12(bench)
    assert set(makespans.values) == set(ABOUT["fig12"].values)
    least, mean, most = (makespans.samples(f"quarter_{each}")[0] for each in ("least", "mean", "most"))
    assert least <= mean <= most
    took = (makespans.series[policy] for policy in (twenty_jobs.QUARTER, twenty_jobs.DELAY))
    gains = [100 * (1 - mine[0] / than[0]) for mine, than in zip(*took, strict=True)]
    assert mean == pytest.approx(sum(gains) / 3)

    local = dtss_figures.fig13(bench)
    assert set(local.values) == set(ABOUT["fig13"].values)
    bytes_ = 64e6 * sum(job["maps"] for job in twenty_jobs.jobs(3)) / 1e9
    assert 0 < local.samples("most")[0] < local.samples("delay")[0] <= bytes_

    model = dtss_figures.analysis(bench)
    assert set(model.values) == set(ABOUT["analysis"].values)
    assert 0 < model.samples("local")[0] < model.samples("remote")[0]

    shares = dtss_figures.fig15(bench)
    assert set(shares.values) <= set(ABOUT["fig15"].values)
    assert shares.samples("delay_printed_off") == [pytest.approx(0.782, abs=0.001)]  # by hand from Table 8

    assert set(dtss_figures.beyond(bench).values) == set(ABOUT["beyond"].values)


def test_a_part_takes_a_start_as_long_as_a_whole_map_and_holds_its_slot_meanwhile(bench: Bench) -> None:
    (finished,) = twenty_jobs.run_twenty_jobs(bench)
    maps = finished.of(twenty_jobs.QUARTER).attempts.query("kind == 'map'")
    start_s = maps["start"] - maps["assigned"]
    assert maps["split_of"].nunique() > 1
    assert start_s.min() == pytest.approx(start_s.max()) == pytest.approx(twenty_jobs.START_S, abs=0.1)
    held = twenty_jobs.held_slots(finished, twenty_jobs.QUARTER).attempts
    assert held["start"].equals(held["assigned"])


def test_delay_scheduling_is_all_local_where_data_lie_everywhere(bench: Bench) -> None:
    measured = dtss_figures.fig14(bench)
    assert set(measured.values) == set(ABOUT["fig14"].values)
    assert measured.samples("delay_local") == [pytest.approx(100)]


def test_every_second_job_of_a_larger_cluster_has_nothing_to_split() -> None:
    asked = larger_clusters.larger(1, machines=100)
    jobs = asked["workload"]["jobs"]
    assert [("read" in job["map"], job["name"].startswith("other")) for job in jobs] == [
        (True, False),
        (False, True),
    ] * (len(jobs) // 2)
    assert [job["maps"] for job in jobs] == [
        job["maps"] * 10 for job in twenty_jobs.jobs(1)[: larger_clusters.JOBS]
    ]
    assert asked["cluster"]["nodes"] == 100 and asked["blocks"]["replication"] == 3


def test_the_cost_to_other_jobs_is_how_much_later_they_end(tmp_path: Path) -> None:
    bench = Bench(tmp_path, machines="sim", repeats=1, seed=1)
    finished = bench.run("twenty", larger_clusters.larger(1, machines=20))
    found = larger_clusters.compared(finished, 20)
    delay, split = (finished.of(policy).jobs for policy in finished.policies)
    for key, mine, sign in (("gain", "job", 1), ("later", "other", -1)):
        before, after = (
            (jobs["finish"] - jobs["submit"])[jobs["name"].str.startswith(mine)].mean()
            for jobs in (delay, split)
        )
        assert found[f"{key}_20"] == pytest.approx(sign * 100 * (1 - after / before))
    assert found["delay_local_20"] > found["local_20"]  # parts run where their input is not
    known = {key.rpartition("_")[0] for key in ABOUT["larger"].values}
    assert {key.rpartition("_")[0] for key in found} == known
