"""The compiled loop gives up where it cannot do what a policy in Python proposes, and objects take over."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest
from numba.core import config as numba_config

from schedbed.policy import Kill, Proposal, TaskKind
from schedbed.scheduler.core.core import Core
from schedbed.scheduler.guard.guarded_policy import guarded
from schedbed.scheduler.policy import PolicyError, PolicyFailed
from schedbed.scheduler.registry.registry import build_policy
from schedbed.scheduler.simulate.setup import Setup
from schedbed.scheduler.simulate.simulation import Simulation
from tests.harness.simulation import Tape, simulate

CONFIG: Any = numba_config
CONFIG.DISABLE_JIT = True
from schedbed.scheduler.simulate.compiled import columns, run_compiled, tables  # noqa: E402
from schedbed.scheduler.simulate.compiled.covers import why_not_policy  # noqa: E402
from tests.scheduler.simulate.test_compiled import compare, contended, story  # noqa: E402

SEED = 5
LAUNCHES = 60
"""Launches after which a policy does what the loop cannot do."""


class FirstCome:
    """A policy that starts the first task of the first job, and does something else after `LAUNCHES` of them."""

    def __init__(self) -> None:
        self.launches = 0

    def decide(self, view: Any, node: Any, kind: TaskKind) -> Proposal | None:
        for job in view.jobs.values():
            task = job.any_reduce() if kind is TaskKind.REDUCE else job.any_map()
            if task is not None:
                self.launches += 1
                reason = f"task {self.launches}"
                if self.launches > LAUNCHES:
                    return self.surprise(view, node, task, reason)
                return Proposal(task, reason)
        return None

    def surprise(self, view: Any, node: Any, task: Any, reason: str) -> Proposal | None:
        return Proposal(task, reason)


class ReadsUsage(FirstCome):
    """Reads the use of the node's CPU."""

    def surprise(self, view: Any, node: Any, task: Any, reason: str) -> Proposal | None:
        return Proposal(task, f"{reason} at {node.usage.cpu_util:.2f}")


class Splits(FirstCome):
    """Splits a map that can be split."""

    def surprise(self, view: Any, node: Any, task: Any, reason: str) -> Proposal | None:
        whole = task.job.whole_map(node.rack) if task.kind is TaskKind.MAP else None
        return Proposal(task, reason) if whole is None else Proposal(whole, reason, split=0.5)


class Copies(FirstCome):
    """Starts a copy of a task that runs on another node."""

    def surprise(self, view: Any, node: Any, task: Any, reason: str) -> Proposal | None:
        running = (attempt for job in view.jobs.values() for attempt in job.attempts.values())
        for attempt in running:
            if attempt.node.node != node.node and attempt.task.kind is task.kind:
                return Proposal(attempt.task, reason, speculative=True)
        return Proposal(task, reason)


class Fails(FirstCome):
    """Raises an error."""

    def surprise(self, view: Any, node: Any, task: Any, reason: str) -> Proposal | None:
        raise ValueError("no more")


class Remembers(FirstCome):
    """Says in its reasons what its hooks were called with, and what it sees when it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self._heard: list[Any] = []

    def submitted(self, view: Any, job: Any) -> None:
        self._heard.append((view.now_s, job.job, job.state))

    def ended(self, view: Any, attempt: Any) -> None:
        times = (attempt.assigned_s, attempt.started_s, attempt.end_s)
        where = (attempt.node.node, attempt.locality)
        self._heard.append((view.now_s, attempt.attempt, attempt.state, attempt.counters, times, where))

    def changed(self, view: Any, job: Any, kind: TaskKind) -> None:
        stage = job.stage(kind)
        self._heard.append((job.job, kind.value, stage.unstarted, stage.running, stage.done))

    def finished(self, view: Any, job: Any) -> None:
        self._heard.append((job.job, job.state, job.finish_s))

    def tick(self, view: Any) -> None:
        self._heard.append(view.now_s)

    def decide(self, view: Any, node: Any, kind: TaskKind) -> Proposal | None:
        jobs = [(sorted(job.attempts), [task.state for task in job.maps.tasks]) for job in view.jobs.values()]
        seen = (node.free_slots(kind), sorted(node.attempts), jobs, view.slots(kind), view.random.random())
        said = sha256(repr((self._heard, seen)).encode()).hexdigest()
        answer = super().decide(view, node, kind)
        return answer and replace(answer, reason=said)


class Kills(Remembers):
    """Stops attempts at random, up to three at each tick."""

    def __init__(self) -> None:
        super().__init__()
        self._stopped: set[str] = set()

    def ended(self, view: Any, attempt: Any) -> None:
        if attempt.attempt not in self._stopped:
            super().ended(view, attempt)
            return
        when = (view.now_s, attempt.end_s)
        self._heard.append((when, attempt.attempt, attempt.state, attempt.counters, attempt.reason))

    def preempt(self, view: Any) -> list[Kill]:
        running = (attempt for job in view.jobs.values() for attempt in job.attempts.values())
        attempts = [attempt for attempt in running if attempt.attempt not in self._stopped]
        count = min(view.random.randint(0, 3), len(attempts), 60 - len(self._stopped))
        chosen = view.random.sample(attempts, count)
        self._stopped.update(attempt.attempt for attempt in chosen)
        return [Kill(attempt, f"number {len(self._stopped)}") for attempt in chosen]


class KillsAndSplits(Kills):
    """Also splits maps at random, each into two parts of any size."""

    def decide(self, view: Any, node: Any, kind: TaskKind) -> Proposal | None:
        answer = super().decide(view, node, kind)
        if answer is None or kind is TaskKind.REDUCE or view.random.random() < 0.5:
            return answer
        whole: Any = answer.task.job.whole_map(node.rack)
        return answer if whole is None else replace(answer, task=whole, split=view.random.uniform(0.1, 0.9))


class Differs(FirstCome):
    """Gives other answers the second time, since it counts in its class."""

    objects = 0

    def __init__(self) -> None:
        super().__init__()
        Differs.objects += 1
        self._label = Differs.objects

    def surprise(self, view: Any, node: Any, task: Any, reason: str) -> Proposal | None:
        return Proposal(task, f"{reason} of {self._label} at {node.usage.cpu_util:.2f}")

    def decide(self, view: Any, node: Any, kind: TaskKind) -> Proposal | None:
        answer = super().decide(view, node, kind)
        return answer and replace(answer, reason=f"{answer.reason} of {self._label}")


@pytest.fixture(autouse=True)
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the loop write rows long before it gives up."""
    monkeypatch.setattr(columns, "ROW_GROUP_ROWS", 4)
    for module in (tables, run_compiled):
        monkeypatch.setattr(module, "ROWS", 8)


def setup_of(policy: type[FirstCome]) -> Setup:
    return replace(story(SEED, "fifo"), policy=lambda: guarded(policy, policy), heartbeat_rows=True)


def begin(policy: type[FirstCome]) -> tuple[Simulation, Tape, str]:
    """Run the compiled loop until it gives up. Return the simulation, its rows until then, and the reason."""
    tape = Tape()
    simulation = Simulation(setup_of(policy), tape)
    why = run_compiled.run(simulation)
    assert why is not None
    return simulation, tape, why


def test_a_plain_policy_is_asked_to_the_end() -> None:
    assert compare(setup_of(FirstCome)) > 4 * LAUNCHES


@pytest.mark.parametrize("make", [story, contended])
def test_a_policy_hears_and_sees_the_same(make: Any) -> None:
    setup = replace(make(3, "fifo"), policy=lambda: guarded(Remembers, Remembers))
    assert compare(setup)


@pytest.mark.parametrize("seed", [17, pytest.param(6, marks=pytest.mark.long)])
def test_attempts_that_a_policy_stops_run_again(seed: int) -> None:
    setup = replace(story(seed, "fifo"), policy=lambda: guarded(Kills, Kills))
    assert compare(setup)
    tape = Tape()
    simulation = Simulation(setup, tape)
    assert run_compiled.run(simulation) is None
    attempts: list[Any] = tape.rows["attempt"]
    assert simulation.statistics.launches == len(attempts) == simulation.statistics.ends
    stopped = [row.attempt for row in attempts if row.state == "killed"]
    assert len(stopped) > 20 and {name.rsplit("_", 3)[1] for name in stopped} == {"m", "r"}


TAKES_BACK = {"fair": {"fair_share_timeout": "2s", "pools": {"ana": {"min_share": 4, "weight": 3}}}}


def test_the_fair_scheduler_takes_slots_back_in_the_loop() -> None:
    decisions: list[Any] = simulate(story(1, TAKES_BACK)).rows["decision"]
    assert any(row.answer == "kill" for row in decisions)
    assert compare(story(1, TAKES_BACK))


@pytest.mark.parametrize("seed", [0, pytest.param(5, marks=pytest.mark.long)])
def test_maps_that_a_policy_splits_run_in_parts(seed: int) -> None:
    setup = replace(story(seed, "fifo"), policy=lambda: guarded(KillsAndSplits, KillsAndSplits))
    rows: Any = simulate(setup).rows
    assert sum(row.split_of != "" and row.state == "killed" for row in rows["attempt"]) > 5
    assert compare(setup)


@pytest.mark.parametrize(("make", "room"), [(story, 3), (contended, 1000)])
def test_objects_stop_what_the_loop_cannot(monkeypatch: pytest.MonkeyPatch, make: Any, room: int) -> None:
    """The loop can stop a limited number of attempts, and none with contention."""
    monkeypatch.setattr(tables, "STOPS", room)
    setup, tape = replace(make(17, "fifo"), policy=lambda: guarded(Kills, Kills)), Tape()
    simulation = Simulation(setup, tape)
    assert "stops attempts, such as" in (run_compiled.run(simulation) or "")
    simulation.run()
    assert tape.text() == simulate(setup).text()


@pytest.mark.parametrize("steps", [1, 3, 50])
def test_a_short_list_of_events_makes_the_same_rows(monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
    monkeypatch.setattr(tables, "STEPS", steps)
    assert compare(setup_of(FirstCome))
    assert compare(story(SEED, "order=pd,locality=delay:node_wait=1s"))


@pytest.mark.parametrize(
    ("policy", "reason"),
    [(ReadsUsage, "heartbeats report"), (Copies, "a copy"), (Splits, "parts of tasks")],
)
def test_objects_repeat_what_the_loop_cannot_do(
    monkeypatch: pytest.MonkeyPatch, policy: type[FirstCome], reason: str
) -> None:
    monkeypatch.setattr(tables, "STOPS", 0)  # Then the room for parts of tasks is used up.
    known = simulate(setup_of(policy)).text()
    simulation, tape, why = begin(policy)
    assert reason in why
    written = {table: len(rows) for table, rows in tape.rows.items()}
    assert all(written[table] > 8 for table in ("decision", "heartbeat", "attempt"))
    simulation.run()
    assert tape.text() == known and len(tape.rows["attempt"]) > written["attempt"]


def test_an_error_of_the_policy_ends_the_run_with_the_rows_and_the_line_of_the_objects() -> None:
    objects, known = Tape(), ""
    with pytest.raises(PolicyFailed) as expected:
        Simulation(setup_of(Fails), objects).run()
    known = objects.text("decision", "attempt", "job")
    simulation, tape, why = begin(Fails)
    assert "no more" in why
    with pytest.raises(PolicyFailed) as found:
        simulation.run()
    assert str(found.value) == str(expected.value)
    assert tape.text("decision", "attempt", "job") == known


def test_an_interrupt_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Core, "committed", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run_compiled.run(Simulation(setup_of(FirstCome), Tape()))


def test_a_policy_that_answers_differently_the_second_time_is_found() -> None:
    simulation, _, _ = begin(Differs)
    with pytest.raises(PolicyError, match="cannot be repeated"):
        simulation.run()


def test_the_core_that_the_policy_saw_is_that_of_the_simulation() -> None:
    """The check of the core's tables after a run finds no error."""
    simulation = Simulation(setup_of(FirstCome), Tape())
    assert run_compiled.run(simulation) is None
    simulation.core.check_tables()
    assert simulation.core.all_ended() and simulation.core.ledger.launches == simulation.statistics.launches
    assert simulation.statistics.jobs == len(simulation.jobs)


def test_nodes_with_more_tasks_than_there_is_room_for_are_left_to_the_objects(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    setup = story(SEED, "ras")
    assert compare(setup)
    monkeypatch.setattr(tables, "ROOM_WITHOUT_SLOTS", 1)
    tape = Tape()
    simulation = Simulation(setup, tape)
    assert "more than 1 tasks" in (run_compiled.run(simulation) or "")
    simulation.run()
    assert tape.text() == simulate(setup).text()


@pytest.mark.parametrize(
    ("policy", "why"),
    [("pd:remaining=progress", "the progress"), ("csla", None), ("dtss", None), ("ras", None)],
)
def test_what_a_policy_may_do_is_known_before(policy: str, why: str | None) -> None:
    found = why_not_policy(build_policy(policy), contention=False)
    assert found is None if why is None else why in (found or "")
    assert (why_not_policy(build_policy("dtss"), contention=True) or "").startswith("the policy splits tasks")
