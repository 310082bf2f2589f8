"""FGCS's experiments on small runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from schedbed.deploy.papers import paper_file
from schedbed.deploy.papers.bench import Bench
from schedbed.deploy.papers.liu2015 import eight_tests, fig2_teragen, mixes, table1_demand

ABOUT = paper_file.load("liu2015").experiments


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path, machines="sim", repeats=1, seed=2)


def test_samples_find_the_demands_that_the_benchmarks_are_built_to_have(bench: Bench) -> None:
    measured = table1_demand.measure(bench)
    assert set(measured.values) == set(ABOUT["table1"].values)
    found = {key: measured.samples(key)[0] for key in measured.values}
    assert found["teragen_map"] == pytest.approx(49, abs=1) and found["etl_map"] == pytest.approx(47, abs=1)
    assert found["pi_map"] == found["pi_reduce"] == 100


def test_the_eight_tests_are_those_of_table_3() -> None:
    assert len(eight_tests.MIXES) == 8
    by_name = {mix.name: mix for mix in eight_tests.MIXES}
    assert {job["name"]: job["maps"] for job in eight_tests.jobs_of(by_name["pi-etl"], live=False)} == {
        "pi": 70,
        "etl": 31,
    }
    heavy = eight_tests.jobs_of(by_name["pi-bbp-teragen"], live=False)
    assert {job["name"]: job["maps"] for job in heavy} == {"pi": 50, "bbp": 50, "teragen": 20}
    assert heavy[1]["map"]["cpu"] == "87.525s"  # Table 6


@pytest.mark.long  # seconds
def test_gains_of_one_test_are_those_of_its_jobs(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """On half of the cluster, with half of the tasks."""
    full = eight_tests.jobs_of

    def fewer(mix: eight_tests.Mix, *, live: bool) -> list[dict[str, Any]]:
        return [{**job, "maps": job["maps"] // 2} for job in full(mix, live=live)]

    monkeypatch.setattr(eight_tests, "jobs_of", fewer)
    monkeypatch.setattr(eight_tests, "NODES", 4)
    monkeypatch.setattr(eight_tests, "SAMPLE_TASKS", 4)
    balanced, heavy = eight_tests.MIXES[0], eight_tests.MIXES[-1]
    monkeypatch.setattr(mixes, "MIXES", (balanced, heavy))
    measured = mixes.measure(bench)
    assert set(measured.values) <= set(ABOUT["tests"].values)
    before, after = measured.series["took"]["pi-teragen"][0]
    gain = 100 * (1 - after["pi"] / before["pi"])
    assert gain > 0 and measured.samples("pi-teragen_pi") == [pytest.approx(gain)]
    assert measured.samples("balanced_least") == measured.samples("balanced_most") == [pytest.approx(gain)]
    io = [measured.samples(key)[0] for key in ("pi-teragen_teragen", "pi-bbp-etl_etl")]
    assert measured.samples("io_jobs_mean") == [pytest.approx(sum(io) / 2)]
    assert "io_least" not in measured.values  # no such test was run


def test_the_load_is_of_the_time_while_the_job_runs(bench: Bench) -> None:
    measured = fig2_teragen.measure(bench)
    (load,) = measured.samples("load")
    assert 0 < load < 60 and measured.samples("idle") == [pytest.approx(100 - load)]
    assert measured.series["t"].max() > 100  # 16 GB to one disk
