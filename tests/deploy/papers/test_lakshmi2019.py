"""CSLA's experiments on small runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from schedbed.deploy.papers import paper_file
from schedbed.deploy.papers.bench import Bench
from schedbed.deploy.papers.lakshmi2019 import fours, pairs, private_cloud, table3_predictor

ABOUT = paper_file.load("lakshmi2019").experiments


def bench(folder: Path) -> Bench:
    return Bench(folder, machines="sim", repeats=1, seed=4)


@pytest.mark.long  # seconds
def test_makespans_are_of_each_group_by_itself(tmp_path: Path) -> None:
    groups = [
        [private_cloud.job("sort", 1, queue, 500.0 * number) for queue in private_cloud.QUEUES[: number + 1]]
        for number in range(2)
    ]
    played = bench(tmp_path).play("two", private_cloud.scenario(groups, live=False))
    spans = private_cloud.makespans(played, 2)
    jobs = played.of(played.policies[0]).jobs.sort_values("submit")
    first, *others = jobs["finish"].tolist()
    assert spans["capacity"] == [[pytest.approx(first)], [pytest.approx(max(others) - 500)]]
    assert all(0 < span < 500 for (span,) in spans["csla"])
    ((cpu, rate),) = private_cloud.shares(played).values()
    assert 0 < cpu < 1 and rate > 5  # sort moves data


def test_gains_are_in_per_cent_of_capacity() -> None:
    assert private_cloud.gains({"csla": [[80.0, 110.0]], "capacity": [[100.0, 100.0]]}) == [
        [pytest.approx(20), pytest.approx(-10)]
    ]


@pytest.mark.long  # simulates whole experiments
def test_pairs_and_fours_report_what_the_yaml_knows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs, "PAIRS", (("pi", "sort"), pairs.ALIKE))
    monkeypatch.setattr(pairs, "SIZES_GB", (1,))
    measured = pairs.measure(bench(tmp_path))
    assert set(measured.values) <= set(ABOUT["pairs"].values)
    assert measured.samples("unlike_1") == measured.samples("best")  # there is one
    assert "Sort" in measured.notes[0]
    monkeypatch.setattr(fours, "FOURS", (fours.ALIKE, ("wc", "pi", "rtw", "sort")))
    monkeypatch.setattr(fours, "SIZE_GB", 1)
    assert set(fours.measure(bench(tmp_path)).values) == set(ABOUT["fours"].values)


@pytest.mark.long  # seconds
def test_table_3_is_what_csla_reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table3_predictor, "CASES", {1: (), 4: ("cpu", "io")})
    measured = table3_predictor.measure(bench(tmp_path))
    assert set(measured.values) <= set(ABOUT["table3"].values)
    for key in ("cpu_mae_1", "io_rmse_4"):
        assert 0 < measured.samples(key)[0] < 1
    difference = measured.samples("cpu_mae_4")[0] - measured.samples("cpu_mae_1")[0]
    assert measured.samples("cpu_grows") == pytest.approx([difference])
