"""Tests the suites of jobs that are shipped: each can be planned, and uses only known applications."""

from __future__ import annotations

from typing import Any

import pytest
from typer.testing import CliRunner

from schedbed.deploy.cli import main
from schedbed.deploy.scenario.resolve import resolve
from schedbed.deploy.scenario.suites import suites
from schedbed.tasks.errors import BadInput


def with_suite(name: str, **keys: Any) -> dict[str, Any]:
    """Return a scenario with a suite of jobs on default nodes; `keys` are further keys of the scenario."""
    return {"scale": 0.001, "workload": {"suite": name}, **keys}


@pytest.mark.parametrize("name", suites())
def test_every_suite_is_planned(name: str) -> None:
    resolved = resolve(with_suite(name))
    assert [job.name for job in resolved.jobs] == [
        job.name for job in sorted(suites()[name].jobs, key=lambda job: job.submit)
    ]
    assert all(job.maps for job in resolved.jobs)


def test_the_mixed_suite_has_every_application_of_the_papers() -> None:
    papers = {
        "wordcount",
        "sort",
        "grep",
        "pi",
        "bbp",
        "randomtextwriter",
        "teragen",
        "etl",
        "combine",
        "select",
    }
    papers |= {"bayes", "tfidf", "wikitrends", "twitter"}
    assert {job.app for job in suites()["mixed"].jobs} == {*papers, "synthetic"}


def test_a_suite_is_scaled_like_jobs() -> None:
    """By Table 1 of polo2011 the seventh job reads 50 GB, is submitted at 1,100 s, and has its deadline at
    6,000 s.

    The scale divides all three values by 1,000.
    """
    resolved = resolve(with_suite("polo2011-goals"))
    job = resolved.jobs[6]
    assert (job.name, job.app, job.submit_s, job.deadline_s) == ("J7", "combine", 1.1, 6.0)
    assert job.input is not None
    assert resolved.input(job.input).length == 50_000_000


def test_the_suites_with_and_without_goals_are_the_same_else() -> None:
    plain, goals = suites()["polo2011"].jobs, suites()["polo2011-goals"].jobs
    assert [job.model_copy(update={"deadline": None}) for job in goals] == list(plain)


@pytest.mark.parametrize(
    ("workload", "told"),
    [
        ({"suite": "mixd"}, "workload.suite: unknown suite 'mixd', did you mean 'mixed'?"),
        ({"suite": "mixed", "users": 3}, "workload.users: only goes with trace: FILE, not with suite"),
        ({"suite": "mixed", "jobs": [{"app": "pi"}]}, "expected one of jobs"),
        ({}, "expected one of jobs"),
    ],
)
def test_what_is_wrong_with_a_suite_is_told(workload: dict[str, Any], told: str) -> None:
    with pytest.raises(BadInput) as error:
        resolve({"workload": workload})
    assert told in str(error.value)
    assert "\n" not in str(error.value)


def test_a_job_of_a_suite_that_fits_no_node_is_told() -> None:
    with pytest.raises(BadInput, match=r"workload\.suite.*no node has reduce_slots"):
        resolve(with_suite("mixed", cluster={"node": {"reduce_slots": 0}}))


def test_suites_are_listed_and_shown() -> None:
    listed = CliRunner().invoke(main.app, ["suites"])
    assert listed.exit_code == 0
    assert all(name in listed.output for name in suites())
    shown = CliRunner().invoke(main.app, ["suites", "xu2015"])
    assert "{name: job20, app: synthetic" in shown.output
    assert CliRunner().invoke(main.app, ["suites", "mixd"]).exit_code == 2
