"""Tests that the text of a scenario in run.json is the scenario's form as JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from schedbed.deploy.recorded_form import recorded_form
from schedbed.deploy.scenario.resolve import resolve
from schedbed.deploy.scenario.resolved import ResolvedScenario
from schedbed.tasks.specs import Cost, Demand
from schedbed.tasks.workloads.planned import InputFile, PlannedJob

JOBS: list[dict[str, Any]] = [
    {"app": "synthetic", "maps": 5, "map": {"cpu": "1s", "read": "1MiB", "variance": 0.4}, "reduces": 2},
    {"app": "synthetic", "maps": 1, "user": 'a "b" é', "queue": "q", "priority": "high", "deadline": "9s"},
    {"app": "synthetic", "count": 3, "maps": 2, "map": {"cpu": "1s", "read": "5MiB"}, "requested": "7s"},
    {"app": "wordcount", "input": {"generate": "text", "size": "3MiB"}, "reduces": 1},
]


def odd() -> ResolvedScenario:
    """Return a scenario with values that only a program can give."""
    scenario = resolve({"cluster": {"nodes": 2}, "workload": {"jobs": JOBS[:1]}})
    need, cost = Demand(memory_bytes=1), Cost(cpu_s=float("inf"))
    job = PlannedJob(
        job="job_1", name="\n", app="synthetic", user="u", submit_s=3, maps=2, map_demand=need,
        reduce_demand=need, map_costs=(cost, cost), params={"x": (1, None)}, deadline_s=float("inf"),
    )  # fmt: skip
    same = replace(job, job="job_2", params={}, maps=1, submit_s=1e-7, deadline_s=0.1)
    files = [
        InputFile(path="/in/a", source="filler", blocks=(), seed=3),
        InputFile(path="/in/é", source="filler", blocks=(7,), real_path="r", generate="g"),
        InputFile(path="/in/b", source="filler", blocks=(7,), preferred=(("n1",),)),
        InputFile(path="/in/c", source="generate", blocks=(7, 7, 5), generate="text"),
    ]
    return replace(scenario, jobs=(job, same), inputs=tuple(files))


def of_trace(tmp_path: Path) -> ResolvedScenario:
    trace = tmp_path / "t.tsv"
    trace.write_text("".join(f"job{i}\t{i / 3}\t0\t{(i % 3) << 20}\t{i % 2}\t{i % 5}\n" for i in range(20)))
    return resolve({"cluster": {"nodes": 4}, "workload": {"trace": str(trace)}})


@pytest.mark.parametrize("which", ["jobs", "trace", "odd"])
def test_the_text_is_the_scenario_as_json(which: str, tmp_path: Path) -> None:
    plain = {"cluster": {"nodes": 3}, "workload": {"jobs": JOBS}, "measure": {"until": "1s"}}
    scenario = {"jobs": lambda: resolve(plain), "trace": lambda: of_trace(tmp_path), "odd": odd}[which]()
    values, text = recorded_form(scenario)
    wanted = scenario.to_json()
    assert text == json.dumps(wanted, default=str)
    assert list(values) == list(wanted)
    jobs = values["jobs"]
    assert list(jobs) == wanted["jobs"] and jobs[-1] == wanted["jobs"][-1] and jobs[1:] == wanted["jobs"][1:]
    assert len(values["inputs"]) == len(wanted["inputs"]) and list(values["inputs"]) == wanted["inputs"]
    large = ("jobs", "inputs")
    assert {k: v for k, v in values.items() if k not in large} == {
        k: v for k, v in wanted.items() if k not in large
    }
