"""Tests the experiments of lakshmi2019 (CSLA) on small runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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


def test_the_nodes_share_one_disk_and_5_mbps_are_heavy_on_any() -> None:
    plan = two_jobs.GroupRun(name="two", groups=[]).scenario(live=False)
    assert plan["cluster"]["node"]["shared_disk"] and plan["cluster"]["node"]["disk"]["rate"] == "100MB/s"
    capacity, csla = (next(iter(policy.values())) for policy in plan["policies"])
    assert csla["io_share"] * 100 == two_jobs.HEAVY_IO_MBPS
    assert capacity["off_switch_per_heartbeat"] == csla["off_switch_per_heartbeat"] == 1
    assert "shared_disk" not in two_jobs.cluster(live=False)["node"]  # as Table 3 has it
    seeks = [
        two_jobs.GroupRun(name="two").scenario(live=live)["cluster"]["node"]["disk"]["seek"]
        for live in (False, True)
    ]
    assert seeks == [0, two_jobs.LIVE_SEEK]


def test_gains_are_in_per_cent_of_capacity() -> None:
    assert two_jobs.saved([[80.0, 110.0]], [[100.0, 100.0]]) == [[pytest.approx(20), pytest.approx(-10)]]


def test_pairs_are_told_apart_by_tags() -> None:
    gains: two_jobs.Gains = {
        ("wc", "rtw"): [20.0, 10.0],
        ("pi", "sort"): [10.0, 0.0],
        ("wc", "pi"): [1.0, -1.0],
    }
    assert two_jobs.split_gains(gains, TAGS) == ([15.0, 5.0], [1.0, -1.0], [14.0, 6.0])


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
    assert set(measured.values) <= set(ABOUT["pairs"].values) and len(measured.samples("anywhere_1")) == 1
    assert measured.samples("unlike_1") == measured.samples("best")  # there is one
    (more,) = measured.samples("unlike_minus_alike")
    assert more == pytest.approx(measured.samples("unlike_1")[0] - measured.samples("alike_1")[0])
    assert "Sort" in measured.notes[0] and measured.samples("tag_rtw") == [1]
    monkeypatch.setattr(csla_figures, "FOURS", (csla_figures.ALIKE, ("wc", "pi", "rtw", "sort")))
    assert set(csla_figures.fours(bench(tmp_path)).values) == set(ABOUT["fours"].values)


@pytest.mark.slow  # simulates pairs on 2 to 8 nodes
def test_machines_of_a_public_cloud_have_their_own_disks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csla_figures, "SIZES_GB", (1,))
    monkeypatch.setattr(csla_figures, "HEADLINE_GB", 1)
    monkeypatch.setattr(csla_figures, "FOURS", (csla_figures.ALIKE, ("wc", "pi", "rtw", "sort")))
    mine = bench(tmp_path)
    measured = csla_figures.public(mine)
    assert set(measured.values) <= set(ABOUT["public"].values)
    assert measured.samples("nodes_4") == measured.samples("unlike_1")
    (grown,) = measured.samples("grows_8")
    assert grown == pytest.approx(measured.samples("nodes_8")[0] - measured.samples("nodes_4")[0])
    assert {size["nodes"] for size in mine.sizes} == {2, 4, 8}
    cluster = two_jobs.GroupRun(name="x", own_disks=True, nodes=8).scenario(live=False)["cluster"]
    assert "shared_disk" not in cluster["node"] and cluster["nodes"] == 8


@pytest.mark.slow  # seconds
def test_table_3_is_what_csla_reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csla_figures, "CASES", {1: (), 4: ("cpu", "io")})
    measured = csla_figures.table3(bench(tmp_path))
    assert set(measured.values) <= set(ABOUT["table3"].values)
    for key in ("cpu_mae_1", "io_rmse_4"):
        assert 0 < measured.samples(key)[0] < 1
    difference = measured.samples("cpu_mae_4")[0] - measured.samples("cpu_mae_1")[0]
    assert measured.samples("cpu_grows") == pytest.approx([difference])
