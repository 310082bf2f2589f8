"""Tests the experiments of lakshmi2019 (CSLA) on small runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from schedbed.deploy.papers import paper_file
from schedbed.deploy.papers.bench import Bench
from schedbed.deploy.papers.lakshmi2019 import csla_figures, two_jobs

ABOUT = paper_file.load("lakshmi2019").experiments
TAGS = {"wc": 2, "pi": 2, "grep": 2, "rtw": 1, "sort": 1}


def bench(folder: Path) -> Bench:
    return Bench(folder, machines="sim", repeats=1, seed=4)


def plan_of(groups: list[list[dict[str, Any]]]) -> dict[str, Any]:
    plan = two_jobs.GroupRun(name="two", factor=1).scenario(live=False)
    return {**plan, "workload": {"jobs": [job for group in groups for job in group]}}


@pytest.mark.slow  # seconds
def test_makespans_are_of_each_group_by_itself(tmp_path: Path) -> None:
    groups = [
        [two_jobs.job("sort", 1, queue, 500.0 * number) for queue in two_jobs.QUEUES[: number + 1]]
        for number in range(2)
    ]
    finished = bench(tmp_path).run("two", plan_of(groups))
    spans = two_jobs.makespans(finished, 2)
    jobs = finished.of(finished.policies[0]).jobs.sort_values("submit")
    first, *others = jobs["finish"].tolist()
    assert spans["capacity"] == [[pytest.approx(first)], [pytest.approx(max(others) - 500)]]
    assert all(0 < span < 500 for (span,) in spans["csla"])
    ((cpu, rate),) = two_jobs.shares(finished).values()
    assert 0 < cpu < 1 and rate > 5  # sort moves data


def test_groups_that_run_into_each_other_are_refused(tmp_path: Path) -> None:
    groups = [[two_jobs.job("pi", 0.25, "a", submit_s)] for submit_s in (0.0, 5.0)]
    finished = bench(tmp_path).run("two", plan_of(groups))
    with pytest.raises(ValueError, match="two: jobs of two groups ran at the same time"):
        two_jobs.makespans(finished, 2)


def test_groups_come_the_later_the_slower_the_disk() -> None:
    """The next group of jobs is submitted later on a slower disk if the current group uses the disk, as Sort
    does.

    Pi does not use the disk, so the next group is not delayed.
    """
    second = {
        (app, rate): two_jobs.GroupRun(
            name="two", groups=[(app,), ("wc",)], size_gb=2, queues="a", disk_mbps=rate
        ).jobs()[1]["submit"]
        for app in ("pi", "sort")
        for rate in (50, 100)
    }
    assert second == {("pi", 100): "150s", ("pi", 50): "150s", ("sort", 100): "260s", ("sort", 50): "460s"}


def test_the_nodes_share_one_disk_and_5_mbps_are_heavy_on_any() -> None:
    plan = two_jobs.GroupRun(name="two", groups=[], disk_mbps=25).scenario(live=False)
    assert plan["cluster"]["node"]["shared_disk"] and plan["cluster"]["node"]["disk"] == "25MB/s"
    capacity, csla = (next(iter(policy.values())) for policy in plan["policies"])
    assert csla["io_share"] * 25 == two_jobs.HEAVY_IO_MBPS
    assert capacity["off_switch_per_heartbeat"] == csla["off_switch_per_heartbeat"] == 1
    assert "shared_disk" not in two_jobs.cluster(live=False)["node"]  # as Table 3 has it


def test_gains_are_in_per_cent_of_capacity() -> None:
    assert two_jobs.saved([[80.0, 110.0]], [[100.0, 100.0]]) == [[pytest.approx(20), pytest.approx(-10)]]


def test_pairs_are_told_apart_by_tags() -> None:
    gains: two_jobs.Gains = {
        ("wc", "rtw"): [20.0, 10.0],
        ("pi", "sort"): [10.0, 0.0],
        ("wc", "pi"): [1.0, -1.0],
    }
    assert two_jobs.split_gains(gains, TAGS) == ([15.0, 5.0], [1.0, -1.0], [14.0, 6.0])


def finished_run(
    jobs: list[tuple[float, float, float]], heartbeats: list[tuple[float, str, float, float]]
) -> Any:
    """Return a finished run of one repeat on nodes `a` and `b`.

    A job is (submit, start, finish), and a heartbeat (t, node, CPU use, disk use).
    """
    run = SimpleNamespace(
        jobs=pd.DataFrame(jobs, columns=["submit", "start", "finish"]),
        tables={"heartbeats": pd.DataFrame(heartbeats, columns=["t", "node", "cpu_util", "disk_util"])},
        nodes=["a", "b"],
    )
    return SimpleNamespace(policies=["capacity"], each=lambda _: [run])


def test_no_policy_gains_more_than_the_idle_time_of_the_busier_of_cores_and_shared_disk() -> None:
    jobs = [(0.0, 0.0, 90.0), (0.0, 5.0, 100.0), (200.0, 201.0, 250.0)]
    first = [(0.0, "a", 0.0, 0.0), (0.0, "b", 0.0, 0.0), (100.0, "a", 0.5, 0.3), (100.0, "b", 0.7, 0.1)]
    second = [(200.0, "a", 0.0, 0.0), (200.0, "b", 0.0, 0.0), (250.0, "a", 0.1, 0.4), (250.0, "b", 0.1, 0.5)]
    found = csla_figures.rooms(finished_run(jobs, first + second))
    assert found == [[pytest.approx(40)], [pytest.approx(10)]]  # 0.6 of all cores, then 0.4 + 0.5 of the disk


def test_the_jobs_of_a_pair_run_together_from_the_later_start_to_the_earlier_end() -> None:
    jobs = [(0.0, 0.0, 80.0), (0.0, 60.0, 100.0), (200.0, 200.0, 250.0), (200.0, 260.0, 300.0)]
    assert csla_figures.together(finished_run(jobs, []), "capacity") == [[pytest.approx(25)], [0]]


def test_jobs_in_turns_put_one_of_each_kind_into_each_queue() -> None:
    assert csla_figures.in_turns(two_jobs.FOURS) == [
        ("wc", "rtw", "pi", "sort"),
        ("wc", "rtw", "grep", "sort"),
        ("pi", "rtw", "grep", "sort"),
    ]


@pytest.mark.slow  # seconds
def test_tags_of_jobs_alone_are_those_that_the_paper_needs(tmp_path: Path) -> None:
    """Jobs that run alone are classified as the paper needs: WordCount as CPU-heavy, RandomTextWriter like
    Sort.

    The values of RandomTextWriter are not close to a limit.
    """
    alone = two_jobs.run_alone(bench(tmp_path))
    assert two_jobs.tags_of(alone) == TAGS
    shares = two_jobs.shares(alone)
    assert shares["rtw"][0] < 0.3 and shares["rtw"][1] > 10
    cpu_a_byte = {app: shares[app][0] / shares[app][1] for app in ("rtw", "sort")}
    assert 1 < cpu_a_byte["rtw"] / cpu_a_byte["sort"] < 1.4


@pytest.mark.slow  # simulates whole experiments
def test_pairs_and_fours_report_what_the_yaml_knows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csla_figures, "PAIRS", (("pi", "sort"), ("rtw", "sort")))
    monkeypatch.setattr(csla_figures, "SIZES_GB", (1,))
    monkeypatch.setattr(csla_figures, "HEADLINE_GB", 1)
    measured = csla_figures.pairs(bench(tmp_path))
    assert set(measured.values) <= set(ABOUT["pairs"].values)
    assert measured.samples("unlike_1") == measured.samples("best")  # there is one
    (more,) = measured.samples("unlike_minus_alike")
    assert more == pytest.approx(measured.samples("unlike_1")[0] - measured.samples("alike_1")[0])
    assert "Sort" in measured.notes[0] and measured.samples("tag_rtw") == [1]
    monkeypatch.setattr(csla_figures, "FOURS", (csla_figures.ALIKE, ("wc", "pi", "rtw", "sort")))
    assert set(csla_figures.fours(bench(tmp_path)).values) == set(ABOUT["fours"].values)


@pytest.mark.slow  # simulates a whole experiment
def test_ways_report_what_the_yaml_knows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reported values are those declared in the YAML file, with small jobs and three pairs of
    applications.
    """
    few: tuple[two_jobs.Group, ...] = (("pi", "sort"), ("rtw", "grep"), ("wc", "pi"))

    def small(**fields: object) -> two_jobs.GroupRun:
        return replace(two_jobs.GroupRun(name="x"), **{"groups": few, "size_gb": 1, **fields})

    monkeypatch.setattr(csla_figures, "PAIRS", few)
    monkeypatch.setattr(two_jobs, "PAIRS", few)
    monkeypatch.setattr(csla_figures, "GroupRun", small)
    for name in ("ONE", "EACH", "EACH_GROWN"):
        monkeypatch.setattr(csla_figures, name, replace(getattr(csla_figures, name), groups=few, size_gb=1))
    own = bench(tmp_path)
    measured = csla_figures.ways(own)
    assert set(measured.values) == set(ABOUT["ways"].values)
    first = next(
        finished for folder, finished in own._finished.items() if folder.name == "pairs-3GB-cpu-first"
    )
    names = first.of(first.policies[0]).jobs.sort_values("job")["name"].tolist()
    assert names == ["pi", "sort", "grep", "rtw"]  # the CPU-heavy job of each unlike pair first


@pytest.mark.slow  # seconds
def test_table_3_is_what_csla_reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csla_figures, "CASES", {1: (), 4: ("cpu", "io")})
    measured = csla_figures.table3(bench(tmp_path))
    assert set(measured.values) <= set(ABOUT["table3"].values)
    for key in ("cpu_mae_1", "io_rmse_4"):
        assert 0 < measured.samples(key)[0] < 1
    difference = measured.samples("cpu_mae_4")[0] - measured.samples("cpu_mae_1")[0]
    assert measured.samples("cpu_grows") == pytest.approx([difference])


def test_causes_change_the_stress_the_jobs_the_maps_or_the_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each possible cause changes one part of the scenario.

    Nothing is simulated: a given report of the predictor and gains of 1% replace the runs.
    """
    asked: dict[str, dict[str, Any]] = {}

    def run(self: Bench, name: str, scenario: dict[str, Any]) -> Any:
        asked[name] = scenario
        report = {"predictor": {key: {"mae": 0.1, "rmse": 0.3} for key in ("cpu", "io")}}
        return SimpleNamespace(policies=["csla"], run=SimpleNamespace(repeats=1), findings=lambda *_: report)

    tried: dict[str, two_jobs.GroupRun] = {}

    def gains(_: Bench, way: two_jobs.GroupRun) -> two_jobs.Gains:
        tried[way.name] = way
        return {key: [1.0] for key in way.groups}

    monkeypatch.setattr(Bench, "run", run)
    monkeypatch.setattr(csla_figures, "run_alone", lambda _: None)
    monkeypatch.setattr(csla_figures, "tags_of", lambda _: TAGS)
    monkeypatch.setattr(csla_figures, "group_gains", gains)
    measured = csla_figures.causes(bench(tmp_path))
    assert set(measured.values) == set(ABOUT["causes"].values)
    assert measured.samples("io_rmse_4_turns") == [0.3] and measured.samples("fine_1") == [1.0]
    names = {job["name"] for name, each in asked.items() for job in each["workload"]["jobs"] if "pi" in name}
    assert names == {"pi", "stress-cpu", "stress-io"}
    assert all(TAGS[head] > TAGS[last] for head, last in tried["pairs-4GB-cpu-first"].groups)
    both = tried["pairs-2GB-cpu-first-fine"]
    assert both.finer == 4 and TAGS[both.groups[0][0]] > TAGS[both.groups[0][1]]
    assert tried["pairs-1GB-fine"].finer == 4 and ("rtw", "grep") in tried["pairs-1GB-fine"].groups
