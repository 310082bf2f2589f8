"""Heartbeats without news are not passed to users' policies.

The rows are the same as with all heartbeats, whatever a policy reads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from schedbed.policy import Composed, Proposal, TaskKind, shipped_axis
from schedbed.scheduler.guard.guarded_policy import guarded
from schedbed.scheduler.hooks import Quiet
from schedbed.scheduler.policy import PolicyError, PolicyFailed
from schedbed.scheduler.simulate.setup import Setup, Timing
from schedbed.scheduler.simulate.simulation import Simulation
from tests.harness.simulation import Tape, random_faults, random_jobs, setup

DECIDED = ("decision", "attempt", "job", "block", "fault")
LATE_S = 20.0


class Nearest:
    """A policy that reads nothing that heartbeats change."""

    def decide(self, view: Any, node: Any, kind: TaskKind) -> Proposal | None:
        for job in view.jobs.values():
            task = job.any_reduce() if kind is TaskKind.REDUCE else job.local_map(node.node) or job.any_map()
            if task is not None:
                return Proposal(task, self.reason(view, node))
        return None

    def reason(self, view: Any, node: Any) -> str:
        return "nearest"


class Reading(Nearest):
    """A policy that writes values from heartbeats into its reasons after `LATE_S` seconds."""

    def reason(self, view: Any, node: Any) -> str:
        return self.read(view, node) if view.now_s > LATE_S else "nearest"

    def read(self, view: Any, node: Any) -> str:
        raise NotImplementedError


class Heartbeats(Reading):
    def read(self, view: Any, node: Any) -> str:
        return f"{view.beats} heartbeats"


class Use(Reading):
    def read(self, view: Any, node: Any) -> str:
        return f"{[each.usage.cpu_util for each in view.nodes.values()]}"


class Running(Reading):
    """A policy that reads the attributes `names` of all running attempts."""

    names: Sequence[str] = ()

    def read(self, view: Any, node: Any) -> str:
        attempts = [each for job in view.jobs.values() for each in job.attempts.values()]
        return f"{[getattr(attempt, name) for attempt in attempts for name in self.names]}"


class Progress(Running):
    names = ("progress",)


class Phase(Running):
    names = ("phase",)


class Started(Running):
    names = ("started_s",)


class State(Running):
    names = ("state",)


class Hiding(Use):
    """A policy that catches all exceptions.

    It even catches the internal one with which the simulator restarts a run.
    """

    def read(self, view: Any, node: Any) -> str:
        try:
            return super().read(view, node)
        except BaseException:
            return "unread"


class Learning(Nearest):
    """A policy that reads the start times of ended attempts."""

    def __init__(self) -> None:
        self.times_s: list[float] = []

    def ended(self, view: Any, attempt: Any) -> None:
        if attempt.state == "succeeded":
            self.times_s.append(attempt.end_s - attempt.started_s)

    def reason(self, view: Any, node: Any) -> str:
        return f"{sum(self.times_s):.6f} s so far"


class Hearing(Nearest):
    """A policy that counts heartbeats in its hook."""

    def __init__(self) -> None:
        self.heard = 0

    def beat(self, view: Any, node: Any) -> None:
        self.heard += 1

    def reason(self, view: Any, node: Any) -> str:
        return f"{self.heard} heartbeats"


class Ticking(Nearest):
    """A policy that reads the nodes' usage on ticks only."""

    def __init__(self) -> None:
        self.busy = 0.0

    def tick(self, view: Any) -> None:
        if view.now_s > LATE_S:
            self.busy = sum(node.usage.cpu_util for node in view.nodes.values())

    def reason(self, view: Any, node: Any) -> str:
        return f"{self.busy:.6f} busy"


class Poorest:
    """A user's order: jobs of the user with the fewest running tasks come first."""

    def jobs(self, view: Any, node: Any, kind: TaskKind) -> list[Any]:
        ready = [job for job in view.jobs.values() if job.stage(kind).ready]
        return sorted(ready, key=lambda job: (job.stage(kind).user.running, job.serial))


class Busiest(Poorest):
    """A user's order that reads the node's usage after `LATE_S` seconds."""

    def jobs(self, view: Any, node: Any, kind: TaskKind) -> list[Any]:
        jobs = super().jobs(view, node, kind)
        return jobs[::-1] if view.now_s > LATE_S and node.usage.cpu_util > 0.4 else jobs


def composed(order: type) -> Callable[[], Composed]:
    """Return a function that creates a policy with this order, delay scheduling and admission by slots."""
    return lambda: Composed(order(), shipped_axis("locality", "delay"), shipped_axis("admission", "slots"))


def given(make: Callable[[], Any], seed: int = 1, *, faults: Sequence[str] = (), **changes: Any) -> Setup:
    """Return the setup of a simulation of random jobs under the guarded policy that `make` returns.

    `faults` are kinds of faults.
    """
    jobs, files = random_jobs(seed)
    made = setup(jobs, 4, files=files, seed=seed, timing=Timing(), **changes)
    named = make if isinstance(make, type) else Composed
    made = replace(made, faults=random_faults(seed, 4, faults))
    return replace(made, policy=lambda: guarded(make, named, __file__))


def run(setup: Setup) -> tuple[Tape, Simulation]:
    """Run the simulation and return its rows and the simulation."""
    tape = Tape()
    simulation = Simulation(setup, tape)
    simulation.run()
    return tape, simulation


QUIET = (Nearest, Learning, composed(Poorest))
READING = (Heartbeats, Use, Progress, Phase, Started, State, Hiding, Ticking, composed(Busiest))


@pytest.mark.parametrize("contention", (False, True))
@pytest.mark.parametrize("make", (*QUIET, *READING, Hearing))
def test_no_row_shows_that_heartbeats_were_skipped(make: Callable[[], Any], contention: bool) -> None:
    setup = given(make, contention=contention)
    (spared, left), (complete, full) = run(setup), run(replace(setup, process_all_heartbeats=True))
    assert spared.text(*DECIDED) == complete.text(*DECIDED)
    if make in QUIET:
        assert left.statistics.heartbeats < full.statistics.heartbeats / 2
    else:
        assert left.statistics.heartbeats == full.statistics.heartbeats


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("make", (Nearest, Learning, State, composed(Poorest)))
def test_nor_do_they_with_faults(make: Callable[[], Any], seed: int) -> None:
    setup = given(make, seed, faults=("kill", "freeze", "slow", "partition"))
    assert run(setup)[0].text(*DECIDED) == run(replace(setup, process_all_heartbeats=True))[0].text(*DECIDED)


def test_a_node_has_each_heartbeat_once_and_all_of_them_after_the_first_read() -> None:
    spared, _ = run(given(Use))
    complete, _ = run(replace(given(Use), process_all_heartbeats=True))
    rows = [row[:2] for row in spared.rows["heartbeat"]]
    assert len(set(rows)) == len(rows) < len(complete.rows["heartbeat"])
    late = {row[:2] for row in complete.rows["heartbeat"] if row[0] > LATE_S + 15}
    assert late and late <= set(rows)


def test_a_policy_that_says_no_hears_them_all() -> None:
    class Distrustful(Nearest):
        quiet = Quiet(counts=True)

    setup = given(Distrustful)
    assert (
        run(setup)[1].statistics.heartbeats
        == run(replace(setup, process_all_heartbeats=True))[1].statistics.heartbeats
    )


def test_a_policy_that_answers_differently_when_all_begins_again_is_found() -> None:
    class Fickle(Use):
        made = 0

        def __init__(self) -> None:
            type(self).made += 1

        def reason(self, view: Any, node: Any) -> str:
            return super().reason(view, node) if view.now_s > LATE_S else f"{self.made}"

    with pytest.raises(PolicyError, match="the policy cannot be repeated: first"):
        run(given(Fickle))


def test_what_a_policy_keeps_of_the_view_cannot_be_read_after_the_run() -> None:
    class Keeping(Nearest):
        def decide(self, view: Any, node: Any, kind: TaskKind) -> Proposal | None:
            self.node = node
            return super().decide(view, node, kind)

        def report(self) -> dict[str, float]:
            return {"use": self.node.usage.cpu_util}

    _, simulation = run(given(Keeping))
    with pytest.raises(PolicyFailed, match="the run has ended"):
        simulation.master.report()


def test_proxies_of_watched_objects_have_the_names_of_the_others() -> None:
    class Wrong(Nearest):
        def reason(self, view: Any, node: Any) -> str:
            return node.temperature

    with pytest.raises(PolicyFailed, match="a policy's node has no 'temperature'"):
        run(given(Wrong))
