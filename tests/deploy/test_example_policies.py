"""Tests that the six example policies do what their files describe, and that `schedbed policy check` accepts
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from schedbed.deploy.scenario.policies import policies_of
from schedbed.deploy.studies import policy_check
from schedbed.deploy.studies.policy_check import NODE, STORIES, PolicyCheck, StoryResult, run_story
from schedbed.scheduler.simulate.simulation import Simulation
from tests.harness.simulation import Tape, job, setup

FOLDER = Path(__file__).parents[2] / "examples" / "policies"
NAMES = {
    "axes": "PoorestFirst",
    "by_chance": "ByChance",
    "earliest_deadline": "EarliestDeadline",
    "own_late": "OwnLate",
    "shortest_remaining": "ShortestRemaining",
    "two_levels": "TwoLevels",
}
CHEAP = ("a small cluster", "a full disk", "JobTracker restarts")


def spec(name: str, parameters: str = "") -> str:
    return f"{FOLDER / name}.py:{NAMES[name]}{parameters}"


def test_all_files_are_tried() -> None:
    assert sorted(NAMES) == sorted(path.stem for path in FOLDER.glob("*.py"))


@pytest.mark.parametrize("name", NAMES)
def test_the_check_finds_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def child(choice: Any, stories: Sequence[str], most_s: float) -> dict[str, list[str]]:
        return {story: run_story(story, choice).lines() for story in stories}

    monkeypatch.setattr(policy_check, "STORIES", {story: STORIES[story] for story in CHEAP})
    monkeypatch.setattr(policy_check, "_child", child)
    said: list[str] = []
    [choice] = policies_of([spec(name)])
    check = PolicyCheck(choice)
    check.run_stories(said.append)
    assert check.found == {} and check.notes == {}
    assert len(said) == len(CHEAP) + 1


def finished(policy: str, jobs: Sequence[Any], **changes: Any) -> list[str]:
    """Simulate the jobs under a policy; return the jobs' ids in the order in which they ended."""
    tape = Tape()
    Simulation(setup(jobs, policy=policy, **changes), tape).run()
    return [str(row[0]) for row in tape.rows["job"]]


def test_the_shortest_job_ends_first() -> None:
    jobs = [job("job_0001", [5.0] * 12), job("job_0002", [1.0] * 8), job("job_0003", [2.0] * 8)]
    assert finished(spec("shortest_remaining"), jobs) == ["job_0002", "job_0003", "job_0001"]
    assert finished("fifo", jobs) == ["job_0001", "job_0002", "job_0003"]


def test_the_most_urgent_job_ends_first() -> None:
    jobs = [
        job(f"job_{number:04d}", [3.0] * 8, deadline_s=due_s)
        for number, due_s in ((1, None), (2, 500.0), (3, 100.0))
    ]
    assert finished(spec("earliest_deadline"), jobs) == ["job_0003", "job_0002", "job_0001"]


def test_the_reserved_queue_takes_its_slots_back() -> None:
    jobs = [job("job_0001", [60.0] * 8), job("job_0002", [5.0] * 2, queue="urgent", submit_s=10.0)]
    tape = Tape()
    simulation = Simulation(setup(jobs, policy=spec("two_levels", ":grace_s=4")), tape)
    simulation.run()
    assert [str(row[0]) for row in tape.rows["job"]] == ["job_0002", "job_0001"]
    assert tape.text("decision").count("urgent has waited 4") == 2  # half of four slots
    assert simulation.master.report() == {"queue": "urgent", "reserved": 0.5}


def test_a_late_of_its_own_copies_the_straggler() -> None:
    story = {
        **STORIES["a slow node and copies"],
        "speculation": "none",
        "cluster": {"nodes": 3, "racks": 2, "node": NODE},
    }
    choice = policies_of([spec("own_late")])[0]
    STORIES["own copies"] = story
    try:
        result: StoryResult = run_story("own copies", choice)
    finally:
        del STORIES["own copies"]
    copies = [row for row in result.decisions if "times the usual time" in row.reason]
    assert copies and not result.failure


def test_chance_differs_by_seed_only() -> None:
    jobs = [job(f"job_{number:04d}", [2.0] * 6) for number in range(1, 6)]
    orders = [finished(spec("by_chance"), jobs, seed=seed) for seed in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]


def test_the_poorest_user_goes_first() -> None:
    jobs = [
        job("job_0001", [5.0] * 20, user="ana"),
        job("job_0002", [5.0] * 4, user="bo", submit_s=1.0),
    ]
    assert finished(spec("axes"), jobs) == ["job_0002", "job_0001"]
