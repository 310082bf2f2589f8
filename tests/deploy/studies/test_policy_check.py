"""Tests `schedbed policy check`: a correct policy passes, and each mistake gives a line with its file and
line number.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from schedbed.deploy.failures import RunFailed
from schedbed.deploy.scenario.resolved import PolicyChoice
from schedbed.deploy.studies import policy_check
from schedbed.deploy.studies.policy_check import STORIES, check_policy, run_story
from schedbed.tasks.errors import BadInput

FILE = """
import random
from schedbed.policy import Proposal, Quiet, TaskKind


class Sound:
    def __init__(self, near=True):
        self.near = near

    def names(self, view):
        return list(view.jobs)

    def decide(self, view, node, kind):
        for name in self.names(view):
            job = view.jobs[name]
            task = job.any_map() if kind is TaskKind.MAP else job.any_reduce()
            if task is not None:
                return Proposal(task, "next")
        return None


class Unseeded(Sound):
    def names(self, view):
        return random.sample(list(view.jobs), len(view.jobs))


class Sets(Sound):
    def names(self, view):
        return set(view.jobs)


class Illegal(Sound):
    def decide(self, view, node, kind):
        first = next(iter(view.jobs.values())).maps.tasks[0]
        again = first.state == "running" and kind is TaskKind.MAP and len(view.jobs) > 1
        return Proposal(first, "again") if again else super().decide(view, node, kind)


class Starving(Sound):
    def names(self, view):
        return [name for name, job in view.jobs.items() if job.user != "bo"]


class LastComeFirst(Sound):
    def names(self, view):
        return list(view.jobs)[::-1]


class Brittle(Sound):
    def decide(self, view, node, kind):
        if not all(other.alive for other in view.nodes.values()):
            raise ValueError("where is it?")
        return super().decide(view, node, kind)


class Forgetful(Sound):
    def __init__(self):
        super().__init__()
        self.asked = 0

    def decide(self, view, node, kind):
        self.asked += 1
        answer = super().decide(view, node, kind)
        return answer and Proposal(answer.task, f"answer {self.asked}")

    def state(self):
        return None

    def restore(self, view, state):
        pass


class Promising(Sound):
    quiet = Quiet()

    def __init__(self):
        super().__init__()
        self.heard = 0

    def beat(self, view, node):
        self.heard += 1

    def decide(self, view, node, kind):
        answer = super().decide(view, node, kind)
        return answer and Proposal(answer.task, f"after {self.heard} heartbeats")
"""


@pytest.fixture
def policies(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(FILE)
    return path


def checked(path: Path, name: str) -> tuple[list[str], str]:
    said: list[str] = []
    failure = ""
    try:
        check_policy(f"{path}:{name}", said.append)
    except RunFailed as error:
        failure = str(error)
    return [line for line in said if line.startswith(("found", "note"))], failure


def only(monkeypatch: pytest.MonkeyPatch, *stories: str) -> None:
    monkeypatch.setattr(policy_check, "STORIES", {story: STORIES[story] for story in stories})


def repeated_here(choice: PolicyChoice, stories: Sequence[str], _: float) -> dict[str, list[str]]:
    """Run the first story again in this process, which is faster than in another process.

    Return a dictionary from the story's name to its lines.
    """
    return {stories[0]: run_story(stories[0], choice).lines()}


def test_a_sound_policy_passes_every_story(policies: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(policy_check, "_child", repeated_here)
    check_policy(f"{policies}:Sound", said.append)
    assert said[1] == "  parameters: near=True"
    assert [line.split("  ")[1] for line in said[2:-2]] == list(STORIES)
    assert said[-2].startswith("  all once more in another process, which takes ")
    assert not any(line.startswith(("found", "note")) for line in said)


@pytest.mark.parametrize(
    ("name", "story", "line"),
    [
        (
            "Unseeded",
            "more jobs than slots",
            "random draws without the run's seed: use view.random (mine.py, line 24)",
        ),
        ("Illegal", "more jobs than slots", "illegal proposals, the first: job_0001_m_000000 on n"),
        ("Starving", "a small cluster", "nothing runs, 6 tasks wait and 6 slots are free"),
        ("Promising", "a small cluster", "quiet promises too much"),
        ("Forgetful", "JobTracker restarts", "answers otherwise than before the JobTracker's restart"),
        ("Brittle", "a lost node", "ValueError: where is it? (mine.py, line 52), in: a lost node"),
    ],
)
def test_what_is_wrong_is_one_line(
    policies: Path, monkeypatch: pytest.MonkeyPatch, name: str, story: str, line: str
) -> None:
    only(monkeypatch, story)
    [found], failure = checked(policies, name)
    assert line in found and "(mine.py, line " in found
    assert failure == f"policy check {policies}:{name}: 1 finding"


@pytest.mark.long  # seconds
def test_the_order_of_sets_is_found_in_a_second_process(
    policies: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only(monkeypatch, "more jobs than slots")
    found, failure = checked(policies, "Sets")
    assert failure and any("a set has another order in each process" in line for line in found)
    assert any("(mine.py, line 29)" in line for line in found)


def test_who_waits_long_is_a_note(policies: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, "more jobs than slots")
    monkeypatch.setattr(policy_check, "_child", repeated_here)
    [note], failure = checked(policies, "LastComeFirst")
    assert note.startswith("note: starvation: ") and not failure


@pytest.mark.parametrize("spec", ["fair", "mine.py", "missing.py:Mine"])
def test_what_is_no_policy_of_ones_own_is_bad_input(spec: str) -> None:
    with pytest.raises(BadInput):
        check_policy(spec, print)
