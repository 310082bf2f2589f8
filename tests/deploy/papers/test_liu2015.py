"""Tests the experiments of liu2015 (FGCS) on small runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from schedbed.deploy.papers import paper_file
from schedbed.deploy.papers.bench import Bench
from schedbed.deploy.papers.liu2015 import eight_tests, fgcs_figures
from schedbed.deploy.papers.live_and_simulated import live_experiment
from schedbed.deploy.scenario.resolve import resolve

ABOUT = paper_file.load("liu2015").experiments


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path, machines="sim", repeats=1, seed=2)


def test_samples_find_the_demands_that_the_benchmarks_are_built_to_have(bench: Bench) -> None:
    measured = fgcs_figures.table1(bench)
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


@pytest.mark.slow  # seconds
def test_gains_of_one_test_are_those_of_its_jobs(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The gains of a mix of jobs are those of its jobs, here with half of the nodes and half of the tasks."""
    full = eight_tests.jobs_of

    def fewer(mix: eight_tests.Mix, *, live: bool) -> list[dict[str, Any]]:
        return [{**job, "maps": job["maps"] // 2} for job in full(mix, live=live)]

    monkeypatch.setattr(eight_tests, "jobs_of", fewer)
    monkeypatch.setattr(eight_tests, "NODES", 4)
    monkeypatch.setattr(eight_tests, "SAMPLE_TASKS", 4)
    balanced, heavy = eight_tests.MIXES[0], eight_tests.MIXES[-1]
    monkeypatch.setattr(fgcs_figures, "MIXES", (balanced, heavy))
    measured = fgcs_figures.tests(bench)
    assert set(measured.values) <= set(ABOUT["tests"].values)
    (before,), (after,), (before_8,) = measured.series["took"]["pi-teragen", "pi"]
    gain = 100 * (1 - after / before)
    assert gain > 0 and measured.samples("pi-teragen_pi") == [pytest.approx(gain)]
    assert measured.samples("balanced_least") == measured.samples("balanced_most") == [pytest.approx(gain)]
    assert measured.samples("balanced_least_8") == [pytest.approx(100 * (1 - after / before_8))]
    assert before_8 < before  # YARN with 8 vcores runs more maps on a node
    io = [measured.samples(key)[0] for key in ("pi-teragen_teragen", "pi-bbp-etl_etl")]
    assert measured.samples("io_jobs_mean") == [pytest.approx(sum(io) / 2)]
    assert "io_least" not in measured.values  # no such test was run


def test_extremes_are_those_of_each_repeat() -> None:
    """The paper prints the least and the largest gain of tests that ran once."""
    gains = {"steady": [5.0, 5.0], "noisy": [1.0, 11.0], "more": [10.0, 2.0]}
    assert fgcs_figures.extremes(gains) == ([1.0, 2.0], [10.0, 11.0])
    assert fgcs_figures.most_changed({"a": [-3.0, -2.0], "b": [1.0, -6.0]}) == [-3.0, -6.0]


@pytest.mark.slow  # simulates disks of three rates
def test_the_load_is_of_the_time_while_the_job_runs(bench: Bench) -> None:
    """The load is the mean while the job runs: eight tasks of demand 49 on one disk give an eighth of 49 /
    51.

    With a disk five times as fast, the load is five times as high.
    """
    measured = fgcs_figures.fig2(bench)
    assert set(measured.values) == set(ABOUT["fig2"].values)
    (load,) = measured.samples("load")
    assert load == pytest.approx(100 * 49 / 51 / 8, abs=0.5)
    assert measured.samples("idle") == [pytest.approx(100 - load)]
    assert measured.samples("load_5") == [pytest.approx(5 * load, rel=0.05)]
    # 48% of 8 cores for 160 s, over 16 GB
    assert measured.samples("beside") == [pytest.approx((0.6 - load / 100) * 8 * 160 / 16, rel=0.02)]
    assert measured.series["t"].max() > 100  # 16 GB to one disk


def test_live_benchmarks_are_the_applications_with_maps_as_long() -> None:
    mine = {job["name"]: job for job in eight_tests.sample_jobs(live=True)}
    assert all(job["app"] == name for name, job in mine.items())
    plan = eight_tests.scenario(list(mine.values()), ["fair"], live=True)
    resolved = resolve({"name": "live", **plan})
    assert [job.maps for job in resolved.jobs] == [eight_tests.SAMPLE_TASKS] * 4
    pi_s = mine["pi"]["params"]["samples"] * eight_tests.unit_cpu_s("pi") / eight_tests.LIVE_CORE_SPEED
    assert pi_s == pytest.approx(eight_tests.LIVE_SCALE * 78.186)
    [teragen] = [job for job in resolved.jobs if job.app == "teragen"]
    cpu_s = teragen.params["bytes"] * eight_tests.unit_cpu_s("teragen") / eight_tests.LIVE_CORE_SPEED
    io_s = teragen.params["bytes"] / eight_tests.LIVE_DISK_BPS
    assert 100 * cpu_s / (cpu_s + io_s) == pytest.approx(49, abs=1)


def test_a_live_headline_says_which_demands_its_host_gave() -> None:
    """The disk was chosen for a TeraGen of 49%, on a host on which a byte takes 2.1 ns; on others it is another."""
    found = {"pi": {"map": 100, "reduce": 100}, "teragen": {"map": 71, "reduce": 100}}
    assert fgcs_figures.told_demands(found).endswith("(Table 1): pi 100% (100%), teragen 71% (49%).")


def test_a_note_follows_those_of_the_comparison(tmp_path: Path) -> None:
    tiny = {
        "cluster": {"nodes": 2},
        "workload": {"jobs": [{"app": "synthetic", "maps": 2}]},
        "policies": ["fifo"],
    }
    bench = Bench(tmp_path, machines="sim", repeats=2, seed=1)
    experiment = live_experiment(lambda _: tiny, lambda _: [1.0, -1.0], 60, lambda each: f"seed {each.seed}")
    assert experiment.measure(bench).notes[-1] == "seed 1"
