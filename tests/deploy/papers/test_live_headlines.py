"""Tests the main results of `reproduce --quick`: one per paper, live, compared with a simulation of the
scenario.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from schedbed.deploy.papers.bench import Bench, FinishedRun
from schedbed.deploy.papers.catalogue import chosen, entries
from schedbed.deploy.papers.lakshmi2019 import csla_figures
from schedbed.deploy.papers.liu2015 import fgcs_figures
from schedbed.deploy.papers.live_and_simulated import LIVE_REPEATS, compare
from schedbed.deploy.papers.polo2011 import ras_figures
from schedbed.deploy.papers.verdict import HOLDS, OPEN, judge
from schedbed.deploy.papers.verma2011 import slo_slots
from schedbed.deploy.papers.xu2015 import dtss_figures
from schedbed.deploy.scenario.resolve import resolve
from schedbed.scheduler.models.job_profile import JobProfile, Times

PAPERS = ("polo2011", "xu2015", "liu2015", "lakshmi2019", "verma2011")
MOST_S = 40 * 60.0
TINY: dict[str, Any] = {
    "cluster": {"nodes": 2},
    "workload": {"jobs": [{"app": "synthetic", "maps": 6, "map": {"cpu": "10s", "variance": 0.5}}]},
    "policies": ["fifo", "fair"],
}


BENCH = Bench(Path(), machines="process", repeats=1, seed=1)


def test_the_quick_subset_is_a_headline_of_each_paper_in_less_than_forty_minutes() -> None:
    mine = chosen(entries(), None, "process", quick=True)
    assert [entry.paper for entry in mine] == list(PAPERS)
    assert all(entry.experiment.repeats_on("process") == LIVE_REPEATS == 5 for entry in mine)
    assert sum(entry.experiment.about_s("process", quick=True) for entry in mine) < MOST_S


def plans() -> Mapping[str, Mapping[str, Any]]:
    profile = JobProfile(map=Times(90.0, 110.0), first_shuffle=Times(10.0, 12.0), reduce=Times(16.0, 17.0))
    demand = {name: {"map": 100.0} for name in ("pi", "teragen")}
    return {
        "polo2011": ras_figures.plan(BENCH),
        "xu2015": dtss_figures.plan(1),
        "liu2015": fgcs_figures.plan(demand),
        "lakshmi2019": csla_figures.plan(BENCH),
        "verma2011": slo_slots.plan(profile),
    }


@pytest.mark.parametrize("paper", PAPERS)
def test_a_headline_s_scenario_runs_live_and_simulated(paper: str) -> None:
    plan = plans()[paper]
    resolved = resolve({"name": paper, **plan})
    assert resolved.scale < 1
    assert resolved.framework.jvm_s < 0.5  # Its times are scaled by hand.
    cores = sum(node.cores * node.core_speed for node in resolved.cluster.nodes)
    assert cores <= 2  # of a small host


def test_jobs_come_as_much_sooner_as_a_node_has_less_work() -> None:
    """Submission times are divided by 3.75: 3 of 20 nodes run a 25th of the tasks, so each node has 3.75
    times less work.
    """
    jobs = ras_figures.plan(BENCH)["workload"]["jobs"]
    assert float(jobs[-1]["submit"].removesuffix("s")) == pytest.approx(3750 / 3.75)


def gain(finished: FinishedRun) -> list[float]:
    first, second = (finished.figures(policy, "makespan_s") for policy in finished.policies)
    return [100 * (1 - b / a) for a, b in zip(first, second, strict=True)]


def test_both_values_and_whether_their_signs_agree(tmp_path: Path) -> None:
    bench = Bench(tmp_path, machines="sim", repeats=2, seed=4)
    found = compare(bench, "headline", TINY, lambda finished: [each + 1.0 for each in gain(finished)])
    assert found.samples("live") == found.samples("simulated") and len(found.samples("live")) == 2
    assert found.samples("agree") == [1.0]
    assert (
        bench.used == [tmp_path / "headline" / str(number) for number in (1, 2)]
        and (tmp_path / "simulated" / "headline").is_dir()
    )
    bench = Bench(tmp_path / "other", machines="sim", repeats=1, seed=4)
    turned = iter((1.0, -1.0))
    other = compare(bench, "headline", TINY, lambda _: [sign * 1.5 for sign in [next(turned)] * 2])
    assert other.samples("agree") == [0.0]
    bench = Bench(tmp_path / "unclear", machines="sim", repeats=1, seed=4)
    unclear = compare(bench, "headline", TINY, lambda _: [-1.0, 1.0, 0.5])
    assert "not certain live and simulated" in unclear.notes[0]


@pytest.mark.parametrize("paper", PAPERS)
def test_the_sign_of_a_headline_is_not_enough(paper: str) -> None:
    """A live value is judged like a simulated one, by the printed number or range."""
    values = entries()[f"{paper}/live"].about.values
    said = values["live"]
    low, high = said.bounds()
    inside = [(low + high) / 2 + step for step in (0, 0.1, 0.2)]
    assert judge("live", said, "Figure 3", [inside] * 3).verdict == HOLDS
    assert judge("live", said, "Figure 3", [inside]).verdict == OPEN
    assert judge("live", said, "Figure 3", [[high + 1, high + 1.1, high + 1.2]] * 3).verdict == OPEN
    assert set(values) == {"live", "simulated", "agree"}
