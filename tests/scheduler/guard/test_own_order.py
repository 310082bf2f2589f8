"""A user's order combined with shipped axes: the order reads proxies, the shipped axes read the core's
objects, and the order is blamed for its own errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from schedbed.policy import Composed, TaskKind, shipped_axis
from schedbed.scheduler.core.entities import Job
from schedbed.scheduler.guard.guarded_policy import guarded
from schedbed.scheduler.guard.own_order import hears_each_heartbeat, is_shipped, takes_core
from schedbed.scheduler.hooks import QUIET
from schedbed.scheduler.policy import PolicyFailed
from schedbed.scheduler.simulate.setup import Setup
from schedbed.scheduler.simulate.simulation import Simulation
from tests.harness.simulation import SpecifiedCosts, Tape, cluster, job
from tests.scheduler.guard.test_both_doors import rows

HERE = __file__.rsplit("/", 1)[-1]


class Poorest:
    """An order that yields first the jobs of the user with the fewest running tasks.

    Its hooks count the ended attempts.
    """

    def __init__(self) -> None:
        self.told: dict[str, int] = {}
        self.seen: set[type] = set()

    def jobs(self, view: Any, node: Any, kind: TaskKind) -> Iterable[Any]:
        ready = [job for job in view.jobs.values() if job.stage(kind).ready]
        self.seen.update(type(each) for each in (view, node, *ready))
        return sorted(
            ready, key=lambda job: (job.stage(kind).user.running, self.told.get(job.job, 0), job.serial)
        )

    def submitted(self, view: Any, job: Any) -> None:
        self.seen.add(type(job))
        self.told[job.job] = 0

    def ended(self, view: Any, attempt: Any) -> None:
        self.seen.add(type(attempt))
        self.told[attempt.task.job.job] += 1

    def changed(self, view: Any, job: Any, kind: TaskKind) -> None:
        self.seen.add(type(job))

    def finished(self, view: Any, job: Any) -> None:
        del self.told[job.job]


class Lazy(Poorest):
    """The same order as a generator, which yields one job at a time."""

    def jobs(self, view: Any, node: Any, kind: TaskKind) -> Iterable[Any]:
        yield from super().jobs(view, node, kind)


class Subclass(Composed):
    """A user's subclass of `Composed` that adds nothing to its axes."""


class Deciding(Composed):
    """A user's subclass that may misuse the core's objects, and therefore receives proxies."""

    def decide(self, view: Any, node: Any, kind: TaskKind) -> Any:
        return super().decide(view, node, kind)


class Counts(Composed):
    """A user's subclass with an attribute that replaces the axes' hooks."""

    def __init__(self, *axes: Any) -> None:
        super().__init__(*axes)
        self.finished = self.count

    def count(self, view: Any, job: Any) -> None:
        pass


def composition(order: Any, locality: str = "delay", cls: type[Composed] = Composed) -> Composed:
    return cls(order, shipped_axis("locality", locality), shipped_axis("admission", "slots"))


def behind(own: Any) -> Any:
    return guarded(lambda: own, type(own.order), __file__)


def simulate(own: Composed) -> Simulation:
    jobs = [job("job_0001", [1.0]), job("job_0002", [2.0] * 20, reduces=[1.0], user="bo")]
    setup = Setup(
        cluster=cluster(2),
        costs=SpecifiedCosts(),
        contention=False,
        jobs=jobs,
        seed=1,
        policy=lambda: behind(own),
    )
    simulation = Simulation(setup, Tape())
    simulation.run()
    return simulation


@pytest.mark.parametrize("locality", ["greedy", "delay", "split"])
@pytest.mark.parametrize("order", [Poorest, Lazy])
def test_three_doors_give_the_same_rows(order: Callable[[], Any], locality: str) -> None:
    for seed, faults in ((1, False), (2, True)):
        direct = rows("fifo", lambda: composition(order(), locality), seed, faults=faults)
        assert "succeeded" in direct
        assert rows("fifo", lambda: behind(composition(order(), locality)), seed, faults=faults) == direct
        for cls in (Subclass, Deciding):
            assert (
                rows("fifo", lambda cls=cls: behind(composition(order(), locality, cls)), seed, faults=faults)
                == direct
            )


class Listener(Subclass):
    """A subclass with a hook of its own for heartbeats."""

    def beat(self, view: Any, node: Any) -> None:
        """Do nothing."""


class Deaf(Listener):
    """A subclass that declares that heartbeats may be skipped."""

    quiet = QUIET  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride]


class Counting(Poorest):
    """An order with a hook for heartbeats."""

    def beat(self, view: Any, node: Any) -> None:
        """Do nothing."""


@pytest.mark.parametrize(
    ("order", "cls", "hears"),
    [
        (Poorest, Composed, False),
        (Poorest, Subclass, False),
        (Counting, Composed, True),
        (Counting, Subclass, True),
        (Poorest, Listener, True),
        (Poorest, Deaf, False),
    ],
)
def test_delay_alone_needs_no_heartbeats_without_news(order: Any, cls: type[Composed], hears: bool) -> None:
    own = composition(order(), cls=cls)
    assert hears_each_heartbeat(own) is hears
    assert (behind(own).quiet is None) is hears


@pytest.mark.parametrize(("cls", "begins_again"), [(Composed, False), (Subclass, False), (Deciding, True)])
def test_only_delay_behind_proxies_begins_again_with_all_heartbeats(
    cls: type[Composed], begins_again: bool
) -> None:
    simulation = simulate(composition(Poorest(), cls=cls))
    assert simulation.setup.process_all_heartbeats is begins_again
    assert (simulation.statistics.heartbeats_elided == 0) is begins_again


def test_an_order_of_ones_own_sees_nothing_but_proxies() -> None:
    order = Poorest()
    simulate(composition(order))
    seen = {each.__name__.removeprefix("_Watched") for each in order.seen}
    assert seen == {"ViewProxy", "NodeProxy", "JobProxy", "AttemptProxy"}


def failure(order: Any, locality: Any = None) -> str:
    own = (
        composition(order)
        if locality is None
        else Composed(order, locality, shipped_axis("admission", "slots"))
    )
    with pytest.raises(PolicyFailed) as caught:
        simulate(own)
    return str(caught.value)


class Wrong:
    """An order whose `jobs` returns what the function `answer` returns for the view."""

    def __init__(self, answer: Callable[[Any], Any]) -> None:
        self._answer = answer

    def jobs(self, view: Any, node: Any, kind: TaskKind) -> Iterable[Any]:
        return self._answer(view)


def forever(view: Any) -> Iterable[Any]:
    while True:
        yield "job_0001"


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (lambda view: list(view.jobs), "jobs gives a str that is not a running job"),
        (
            lambda view: [next(iter(view.jobs.values())).maps],
            "jobs gives a StageProxy that is not a running job",
        ),
        (lambda view: None, "'NoneType' object is not iterable"),
        (lambda view: [1 / 0], "ZeroDivisionError"),
        (lambda view: view.jobs.clear(), "the view is read-only"),
        (forever, "jobs gives a str that is not a running job"),
    ],
)
def test_what_an_order_does_wrong_is_told_with_its_line(answer: Callable[[Any], Any], text: str) -> None:
    line = failure(Wrong(answer))
    assert text in line and HERE in line


def test_a_job_that_has_ended_is_not_taken() -> None:
    kept: list[Any] = []

    def first_ever(view: Any) -> Iterable[Any]:
        kept.extend(job for job in view.jobs.values() if job not in kept)
        return kept

    assert "JobProxy that is not a running job" in failure(Wrong(first_ever))


def test_a_parameter_that_a_shipped_axis_cannot_use_is_the_policys_fault() -> None:
    locality = shipped_axis("locality", "delay")
    locality._patience = None
    assert HERE in failure(Poorest(), locality)


def test_only_what_is_ours_as_it_is_gets_the_cores_objects() -> None:
    assert takes_core(composition(Poorest())) and takes_core(composition(Poorest(), cls=Subclass))
    for cls in (Deciding, Counts, Listener, Deaf):
        assert not takes_core(composition(Poorest(), cls=cls))
    changed = composition(Poorest())
    changed.locality.pick = lambda view, node, job: None  # type: ignore[method-assign]
    assert not takes_core(changed)
    named: Any = type("Delay", (), {"__module__": "schedbed.scheduler.locality.delay"})()
    assert not is_shipped(named) and not is_shipped(Job.__new__(Job))
