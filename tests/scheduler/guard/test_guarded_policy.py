"""An error in a user's policy ends the run with one line that names the policy's file and line, and changes
nothing.
"""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest

from schedbed.scheduler.core.rows import DecisionRow
from schedbed.scheduler.guard.time_bound import TIME_BOUND
from schedbed.scheduler.policy import PolicyFailed
from schedbed.scheduler.registry.registry import build_policy
from schedbed.scheduler.simulate.simulation import Simulation
from schedbed.tasks.errors import BadInput
from tests.harness.simulation import Tape, job, setup
from tests.harness.world import World
from tests.harness.world import job as world_job
from tests.harness.world import node as world_node

FILE = """
import sys, time
from copy import copy, deepcopy
from schedbed.policy import Kill, Proposal, TaskKind


def pick(view, kind):
    for job in view.jobs.values():
        task = job.any_map() if kind is TaskKind.MAP else job.any_reduce()
        if task is not None:
            return Proposal(task, "first")
    return None


class Mine:
    def decide(self, view, node, kind):
        {decide}
        return pick(view, kind)

    {more}
"""
FIRST_LINE = 17  # of what stands for {decide}


def spec(folder: Path, decide: str = "pass", more: str = "") -> str:
    path = folder / "mine.py"
    lines = decide.replace("\n", "\n        "), more.replace("\n", "\n    ")
    path.write_text(FILE.format(decide=lines[0], more=lines[1]))
    return f"{path}:Mine"


def simulation(policy: str) -> tuple[Simulation, Tape]:
    jobs = [job("job_0001", [2.0] * 6, reduces=[1.0]), job("job_0002", [1.0] * 3, user="bo")]
    tape = Tape()
    return Simulation(setup(jobs, policy=policy), tape), tape


def failure(policy: str) -> tuple[str, Simulation]:
    simulated, _ = simulation(policy)
    with pytest.raises(PolicyFailed) as caught:
        simulated.run()
    line = str(caught.value)
    assert "\n" not in line
    return line, simulated


CHANGES = [
    "node.free_maps = 50",
    "node.spec.map_slots = 50",
    "object.__setattr__(node, 'free_maps', 50)",
    "del node.rack",
    "node.usage.cpu_util = 1.0",
    "node.attempts.clear()",
    "node.attempts['x'] = None",
    "view.now_s = 0.0",
    "view.jobs.clear()",
    "view.jobs.popitem()",
    "del view.jobs['job_0001']",
    "view.nodes.update(n9=node)",
    "view.jobs |= {}",
    "view.nodes['n1'].alive = False",
    "view.launches = 0",
    "view.kill(None, '')",
    "view.jobs['job_0001'].priority = 0",
    "view.jobs['job_0001'].state = 'succeeded'",
    "view.jobs['job_0001'].excluded['n1'] = None",
    "view.jobs['job_0001'].spec.params['x'] = 1",
    "view.jobs['job_0001'].spec.reduces = 0",
    "view.jobs['job_0001'].maps.tasks.sort(key=lambda task: -task.index)",
    "view.jobs['job_0001'].maps.tasks.reverse()",
    "view.jobs['job_0001'].maps.tasks[0].state = 'done'",
    "view.jobs['job_0001'].maps.tasks[0].hosts = ('n1',)",
    "view.jobs['job_0001'].maps.tasks[0].split.length = 1",
    "view.jobs['job_0001'].maps.user.running = 0",
    "view.jobs['job_0001'].maps.demand.memory_bytes = 0",
    "view.jobs['job_0001'].release()",
    "deepcopy(view)",
    "copy(node)",
]


@pytest.mark.parametrize("change", CHANGES)
def test_what_a_policy_gets_is_read_only(tmp_path: Path, change: str) -> None:
    line, simulated = failure(spec(tmp_path, change))
    assert line.endswith(f"(mine.py, line {FIRST_LINE})")
    simulated.core.check_tables()


@pytest.mark.parametrize("change", CHANGES)
def test_a_policy_that_hides_its_errors_changes_nothing(tmp_path: Path, change: str) -> None:
    calm, tried = (
        simulation(spec(tmp_path)),
        simulation(spec(tmp_path, f"try: {change}\nexcept Exception: pass")),
    )
    for each, _ in (calm, tried):
        while each.step():
            each.core.check_tables()
    decided = ("decision", "attempt", "job", "block")
    assert calm[1].text(*decided) == tried[1].text(*decided)


@pytest.mark.parametrize(
    "raised",
    ["sys.exit(0)", "raise GeneratorExit", "1 / 0", "return undefined"],
)
def test_whatever_is_raised_names_the_line(tmp_path: Path, raised: str) -> None:
    assert failure(spec(tmp_path, raised))[0].endswith(f"(mine.py, line {FIRST_LINE})")


@pytest.mark.parametrize("hook", ["submitted", "finished", "ended", "beat", "changed", "tick", "preempt"])
def test_an_error_in_a_hook_names_the_line(tmp_path: Path, hook: str) -> None:
    line, _ = failure(spec(tmp_path, more=f"def {hook}(self, *about):\n    raise ValueError('no such pool')"))
    assert line == f"ValueError: no such pool (mine.py, line {FIRST_LINE + 4})"


@pytest.mark.parametrize(
    ("asked", "text"),
    [("view.kill", "view has no 'kill'"), ("node.free_maps", "node has no 'free_maps'")],
)
def test_what_the_view_lacks_is_told_in_words(tmp_path: Path, asked: str, text: str) -> None:
    line, _ = failure(spec(tmp_path, asked))
    assert line == f"AttributeError: a policy's {text} (mine.py, line {FIRST_LINE})"


HANGS = (
    "while True: pass",
    "time.sleep(1000)",
    "while True:\n    try: time.sleep(0.001)\n    except ValueError: pass",
)


# Each takes a second: while working, each way to hang is tried once, and each place.
@pytest.mark.parametrize(
    ("where", "hang"),
    [
        pytest.param(where, hang, marks=() if first == second else pytest.mark.long)
        for first, where in enumerate(("decide", "tick", "__init__"))
        for second, hang in enumerate(HANGS)
    ],
)
def test_a_policy_that_hangs_is_interrupted(
    tmp_path: Path, hang: str, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TIME_BOUND, "limit_of", lambda _: 0.5)
    if where == "decide":
        policy = spec(tmp_path, hang)
    else:
        policy = spec(tmp_path, more=f"def {where}(self, *about):\n    " + hang.replace("\n", "\n    "))
    with pytest.raises((PolicyFailed, BadInput)) as caught:
        simulation(policy)[0].run()
    assert re.search(rf"{where} has not ended after 0\.5 s \(mine\.py, line \d+\)$", str(caught.value))
    time.sleep(0.6)  # nothing comes after it


def test_wrong_proposals_are_recorded_and_the_next_job_is_asked(tmp_path: Path) -> None:
    wrong = "if kind is TaskKind.MAP and len(view.jobs) == 2 and view.jobs['job_0002'].maps.ready:\n"
    wrong += "    for task in view.jobs['job_0001'].maps.tasks:\n"
    wrong += "        if task.state == 'running': return Proposal(task, 'again')"
    simulated, tape = simulation(spec(tmp_path, wrong))
    simulated.run()
    rejected = [row for row in map(as_decision, tape.rows["decision"]) if row.answer == "reject"]
    assert rejected and all(row.job == "job_0001" and "not unstarted" in row.reason for row in rejected)
    assert tape.text("job").count("succeeded") == 2


def as_decision(row: tuple[Any, ...]) -> DecisionRow:
    return DecisionRow(*row)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("5", "the answer int is neither a Proposal nor None"),
        ("Proposal(None, 'x')", "the proposed NoneType is not a task of a running job"),
        (
            "Proposal(list(view.jobs.values())[0].any_map(), 'x', split='half')",
            "the split str is not a number",
        ),
        ("Proposal(view.jobs['job_0001'].reduces.tasks[0], 'x')", "a reduce was proposed where a map"),
    ],
)
def test_many_wrong_answers_in_a_row_end_the_run(tmp_path: Path, answer: str, why: str) -> None:
    line, _ = failure(spec(tmp_path, f"if view.jobs: return {answer}"))
    assert line.startswith("100 answers in a row were rejected") and why in line
    assert line.endswith("(mine.py, line 16)")


def test_a_policy_that_never_schedules_is_told_what_waits(tmp_path: Path) -> None:
    line, simulated = failure(spec(tmp_path, "return None"))
    assert line.startswith("nothing runs, 9 tasks wait and 4 slots are free, but the policy answered None")
    assert simulated.now_s < 120


def test_a_policy_may_say_that_it_waits_on_purpose(tmp_path: Path) -> None:
    simulated, _ = simulation(spec(tmp_path, "if view.now_s < 300: return None", "patience_s = 400.0"))
    simulated.run()
    assert simulated.now_s > 300


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ("patience_s = float('inf')", "patience_s is inf, expected a finite number of seconds from 0 on"),
        ("patience_s = -1", "patience_s is -1, expected a finite number of seconds from 0 on"),
    ],
)
def test_no_policy_waits_for_ever(tmp_path: Path, more: str, told: str) -> None:
    with pytest.raises(BadInput, match=told):
        simulation(spec(tmp_path, more=more))


def test_a_report_has_a_bounded_size(tmp_path: Path) -> None:
    report = "def report(self):\n    return {'x': 'y' * (1 << 20)}"
    simulated, _ = simulation(spec(tmp_path, more=report))
    simulated.run()
    with pytest.raises(PolicyFailed, match="report gives 1048585 bytes of JSON, expected at most 1048576"):
        simulated.master.report()


def test_a_policy_that_kills_all_is_ended(tmp_path: Path) -> None:
    live = "[a for n in view.nodes.values() for a in n.attempts.values() if a.state != 'killing']"
    line, _ = failure(
        spec(tmp_path, more=f"def preempt(self, view):\n    return [Kill(a, 'no') for a in {live}]")
    )
    assert line.startswith("the policy killed 100 attempts in a row, and none succeeded meanwhile")


def test_a_wrong_kill_is_recorded_only(tmp_path: Path) -> None:
    preempt = "def preempt(self, view):\n    return [Kill(None, 'x')] if view.now_s < 5 else []"
    simulated, tape = simulation(spec(tmp_path, more=preempt))
    simulated.run()
    assert "is no Kill of an attempt that lives" in tape.text("decision")
    assert tape.text("job").count("succeeded") == 2


@pytest.mark.parametrize("pick", ["pass", "return scan(view)"])
def test_a_node_that_a_job_avoids_is_not_offered_for_it(tmp_path: Path, pick: str) -> None:
    """The README's example policy survives a node on which every attempt fails, and so does a policy that
    reads the tasks itself.
    """
    path = spec(tmp_path, pick if pick == "pass" else f"if kind is TaskKind.MAP: {pick}")
    scan = "def scan(view):\n    for job in view.jobs.values():\n        for task in job.maps.tasks:\n"
    scan += "            if task.state == 'unstarted': return Proposal(task, 'scan')\n"
    file = tmp_path / "mine.py"
    file.write_text(file.read_text() + scan)
    world = World(build_policy(path), [world_node("n1"), world_node("n2")])
    world.failing = lambda attempt, node: "no space left" if node == "n1" else None
    world.submit(world_job("job_0001", 12)).run()
    assert [row.state for row in world.tape.jobs] == ["succeeded"]
    assert sum(row.state == "failed" for row in world.tape.attempts) == 3
    assert not [row for row in world.tape.decisions if row.answer == "reject"]
