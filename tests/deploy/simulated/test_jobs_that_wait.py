"""Jobs that are submitted after the end of another job: keys of a scenario, and simulated runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

import schedbed
from schedbed import BadInput
from schedbed.cluster.virtual.latencies import Latencies
from schedbed.deploy.scenario.resolve import resolve
from schedbed.deploy.scenario.resolved import ResolvedScenario
from schedbed.deploy.simulated.simulated_runs import setup_of
from schedbed.deploy.simulated.task_costs import costs_of
from schedbed.scheduler.simulate.compiled.covers import why_not_setup

BURN = {"app": "synthetic", "maps": 2, "map": {"cpu": "3s", "duration": "3s"}}


def scenario(path: Path, *jobs: dict[str, Any], **more: Any) -> Path:
    """Write a scenario with synthetic jobs, and return its path."""
    values: dict[str, Any] = {
        "name": "waits",
        "cluster": {"nodes": 2, "racks": 1, "heartbeat": "100ms", "node": {"cores": 2, "core_speed": 1}},
        "blocks": {"replication": 1},
        "workload": {"jobs": [BURN | job for job in jobs]},
        "policies": ["fifo"],
    }
    path.write_text(yaml.safe_dump(values | more))
    return path


def test_a_job_is_submitted_after_the_end_of_another_and_the_think_time(tmp_path: Path) -> None:
    """The name means the nearest job before; `submit` is the earliest time; the recorded plan keeps both."""
    file = scenario(
        tmp_path / "s.yaml",
        {"name": "a"},
        {"name": "b", "after": "a", "think": "20s", "deadline": "10s"},
        {"name": "a", "submit": "1s", "maps": 1},
        {"name": "c", "after": "a", "submit": "90s", "count": 2},
        {"name": "d", "after": "e"},
        {"name": "e"},
    )
    plan = resolve(file)
    waits = {job.name: (job.after, job.think_s) for job in plan.jobs if job.after}
    assert waits == {
        "b": ("job_0001", 20.0),
        "d": ("job_0004", 0.0),
        "c": ("job_0005", 0.0),
        "c-2": ("job_0005", 0.0),
    }
    assert ResolvedScenario.from_json(plan.to_json()).jobs == plan.jobs
    jobs = schedbed.run(file, machines="sim").jobs.set_index("job")
    by_name = jobs.set_index("name")
    assert by_name["submit"]["b"] == pytest.approx(jobs["finish"]["job_0001"] + 20)
    assert by_name["deadline"]["b"] == pytest.approx(by_name["submit"]["b"] + 10)
    assert by_name["submit"]["d"] == by_name["finish"]["e"]
    assert by_name["submit"]["c"] == by_name["submit"]["c-2"] == 90


@pytest.mark.parametrize(
    ("jobs", "line"),
    [
        (
            ({"name": "a", "after": "a"},),
            "jobs[0].after: no other job is named 'a', the job would wait for itself",
        ),
        (
            ({"name": "a"}, {"name": "b", "after": "aa"}),
            "jobs[1].after: no other job is named 'aa', did you mean 'a'?",
        ),
        (
            ({"name": "a", "after": "c"}, {"name": "b", "after": "a"}, {"name": "c", "after": "b"}),
            "jobs[0].after: a waits for c waits for b waits for a, so that none of them would be submitted",
        ),
        (
            ({"name": "a", "think": "1s"},),
            "jobs[0].think: a time after the end of another job, expected also `after`",
        ),
    ],
)
def test_waits_that_cannot_end_are_refused(
    tmp_path: Path, jobs: tuple[dict[str, Any], ...], line: str
) -> None:
    with pytest.raises(BadInput) as caught:
        resolve(scenario(tmp_path / "s.yaml", *jobs))
    [found] = str(caught.value).splitlines()
    assert found.endswith(f"workload.{line}")


@pytest.mark.parametrize("framework", ["none", "hadoop1"])
def test_a_crash_of_the_jobtracker_loses_no_wait_and_a_cleanup_counts(tmp_path: Path, framework: str) -> None:
    """Crashes before, around and after the end of the job that others wait for. Hadoop 1 ends jobs with a clean-up."""
    jobs = ({"name": "a"}, {"name": "b", "after": "a", "think": "9s"}, {"name": "c", "after": "b"})
    crashes = [
        {"at": f"{at}s", "crash": "jobtracker", "for": "1s"}
        for at in ((1, 3, 8, 20) if framework == "none" else ())
    ]
    file = scenario(tmp_path / "s.yaml", *jobs, faults=crashes, framework=framework)
    runs = [schedbed.run(file, machines="sim").jobs.set_index("name") for _ in range(2)]
    assert runs[0].equals(runs[1])
    [first, _] = runs
    assert first["submit"]["b"] >= first["finish"]["a"] + 9 and first["submit"]["c"] >= first["finish"]["b"]
    assert set(first["state"].astype(str)) == {"succeeded"}


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_no_job_is_submitted_before_its_time(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """In any forest of jobs, each is submitted at its own time or after another's end, whichever is later."""
    count = data.draw(st.integers(2, 7))
    jobs: list[dict[str, Any]] = []
    for number in range(count):
        job: dict[str, Any] = {"name": f"j{number}", "submit": f"{data.draw(st.integers(0, 9))}s"}
        if number and data.draw(st.booleans()):
            job |= {
                "after": f"j{data.draw(st.integers(0, number - 1))}",
                "think": f"{data.draw(st.integers(0, 9))}s",
            }
        jobs.append(job)
    order = data.draw(st.permutations(jobs))
    file = scenario(tmp_path_factory.mktemp("forest") / "s.yaml", *order, policies=["fifo", "fair"])
    for _, rows in schedbed.run(file, machines="sim").jobs.groupby("policy", observed=True):
        found = rows.set_index("name")
        assert len(found) == count
        for job in jobs:
            submit_s = float(job["submit"][:-1])
            if "after" in job:
                submit_s = max(submit_s, found["finish"][job["after"]] + float(job["think"][:-1]))
            assert found["submit"][job["name"]] == pytest.approx(submit_s)


def test_a_measured_window_counts_the_actual_submission(tmp_path: Path) -> None:
    jobs = ({"name": "a"}, {"name": "b", "after": "a", "think": "20s"})
    file = scenario(tmp_path / "s.yaml", *jobs, measure={"from": "10s"})
    result: Any = schedbed.run(file, machines="sim", out=tmp_path / "out")
    found = result.summary["measure"]
    assert (found["jobs"], found["jobs_that_wait"]) == (0, 1)
    assert result.summary["policies"]["fifo"]["jobs"]["submitted"]["mean"] == 1


def test_the_fast_engine_leaves_jobs_that_wait_to_the_other(tmp_path: Path) -> None:
    plan = resolve(scenario(tmp_path / "s.yaml", {"name": "a"}, {"name": "b", "after": "a"}))
    setup = setup_of(plan, plan.policies[0], 0, costs_of(plan), Latencies())
    assert why_not_setup(setup) == "a job waits for another job"
    assert why_not_setup(replace(setup, jobs=setup.jobs[:1])) != why_not_setup(setup)
