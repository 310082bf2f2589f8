"""Runs of Slurm 22.05 and their simulation under the presets: each job's completion, and which policy is better.

The recordings are read from `../shared/traces/slurm`, with the settings of their policies in the README.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import schedbed
from schedbed.deploy.studies.agreement import Run, agreement, mean_completion, mean_run, other_winners

RECORDED = Path(__file__).parents[4] / "shared" / "traces" / "slurm"
pytestmark = pytest.mark.skipif(not RECORDED.is_dir(), reason="the folder with recordings is not here")

EASY = "slurm-backfill:reservations=1,interval=1s"
POLICIES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "fcfs": ("slurm-fcfs", ()),
    "easy": (EASY, ()),
    "cons": ("slurm-backfill:interval=1s", ()),
    "one": (EASY, ("cluster.nodes=1", "cluster.node.map_slots=12", "cluster.node.cores=12")),
}
"""The policies by their names in completions.csv, with changes of the scenario."""
WORKLOADS = ("exact", "over")


@cache
def recorded(workload: str, policy: str) -> Run:
    rows = pd.read_csv(RECORDED / "completions.csv")
    mine = rows[(rows["workload"] == workload) & (rows["policy"] == policy)]
    return mean_run([run_of(repeat, "submit_s", "finish_s", "job") for _, repeat in mine.groupby("repeat")])


@cache
def simulated(workload: str, policy: str, framework: str) -> Run:
    spec, changes = POLICIES[policy]
    result: Any = schedbed.run(
        RECORDED / f"{workload}.schedbed.yaml",
        machines="sim",
        policies=[spec],
        sets=[f"framework={framework}", *changes],
    )
    assert set(result.jobs["state"].astype(str)) == {"succeeded"}
    return run_of(result.jobs, "submit", "finish", "name")


def run_of(jobs: pd.DataFrame, submit: str, finish: str, name: str) -> Run:
    times = zip(jobs[submit].astype(float), jobs[finish].astype(float), strict=True)
    return dict(zip(jobs[name].astype(str), times, strict=True))


@pytest.mark.parametrize(("framework", "most"), [("none", 0.05), ("slurm", 0.025)])
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("workload", WORKLOADS)
def test_jobs_take_as_long_as_recorded(workload: str, policy: str, framework: str, most: float) -> None:
    found = agreement(recorded(workload, policy), simulated(workload, policy, framework))
    assert found.jobs == 10
    assert found.error <= most and abs(found.worst) <= 0.05
    assert abs(found.makespan) <= most and found.order >= 0.9


@pytest.mark.parametrize("framework", ["none", "slurm"])
@pytest.mark.parametrize("workload", WORKLOADS)
def test_each_pair_of_policies_has_the_same_winner(workload: str, framework: str) -> None:
    real = {policy: mean_completion(recorded(workload, policy)) for policy in POLICIES}
    made = {policy: mean_completion(simulated(workload, policy, framework)) for policy in POLICIES}
    assert other_winners(real, made) == []
