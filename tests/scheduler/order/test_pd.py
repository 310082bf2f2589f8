"""The policy PD (deadlines): equations 5 and 6 by hand, and the order of jobs."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

from schedbed.scheduler.order.pd import slots_lacking
from schedbed.scheduler.registry.registry import build_policy
from schedbed.tasks.errors import BadInput
from tests.harness.world import World, job, node


def launched(world: World, first_s: float, last_s: float) -> list[str]:
    """Return the jobs of the maps that were launched from `first_s` until before `last_s`."""
    rows = [row for row in world.tape.decisions if row.answer == "launch" and row.kind == "map"]
    return [row.job for row in rows if first_s <= row.t < last_s]


def test_equation_6_by_hand():
    """Number of slots that a job lacks to meet its deadline, with tasks of 10 s.

    Two running tasks have 4 and 6 s left, and eight have not started: (10/10 + 8) x 10 = 90 s of work. For 30
    s until the deadline the job needs 3 slots, one more than it has. For 60 s it needs 1.5 slots, half a slot
    less than it has. After the deadline it lacks infinitely many.
    """
    assert slots_lacking(10, 4 + 6, 8, 2, 30) == pytest.approx(1)
    assert slots_lacking(10, 4 + 6, 8, 2, 60) == pytest.approx(-0.5)
    assert slots_lacking(10, 10, 8, 2, 0) == slots_lacking(10, 10, 8, 2, -5) == inf


@pytest.mark.parametrize("remaining", ["mean", "progress"])
def test_a_job_gets_the_slots_that_its_deadline_needs(remaining: str):
    """A job with a deadline receives only as many slots as it needs.

    Four slots and maps of 10 s. At 0 s job b (12 maps, due at 60 s) starts two maps as a probe, and the older
    job a uses the other slots. At 10 s the other 10 maps x 10 s in 50 s need 2 slots, so a and b start two
    maps each. This repeats until the maps of b end at 60 s. FIFO would start them only after the 24 maps of
    a, at 60 s.
    """
    world = World(build_policy(f"pd:remaining={remaining}"), [node("n1", maps=4)])
    world.submit(job("a", 24)).submit(job("b", 12, reduces=1, deadline_s=60.5)).run()
    for wave in range(6):
        assert sorted(launched(world, 10 * wave, 10 * wave + 9)) == ["a", "a", "b", "b"], wave
    reasons = [row.reason for row in world.tape.decisions if row.job == "b" and row.kind == "map"]
    assert reasons[0] == "no preferred node; probe 1 of 2: no map of it has ended yet"
    assert reasons[2].startswith("no preferred node; lacks 1.98 slots: 10.0 s a map, 50.5 s left, 0 running")


def test_late_jobs_come_first_and_the_earliest_of_them():
    """At 10 s two deadlines have passed. Job c (due at 2 s) runs before b (due at 5 s), and a runs last."""
    world = World(build_policy("pd:probe=1"), [node("n1", maps=1)])
    world.submit(job("a", 4)).submit(job("b", 2, submit_s=1, deadline_s=5.0))
    world.submit(job("c", 2, submit_s=1, deadline_s=2.0)).run()
    assert launched(world, 0, 1000) == ["a", "c", "c", "b", "b", "a", "a", "a"]
    assert "no preferred node; its deadline has passed by 8.0 s" in [
        row.reason for row in world.tape.decisions
    ]


def test_who_lacks_most_comes_first():
    """The job that lacks the most slots is next in order.

    One map of each job runs first as a probe and ends at 10 s. With 90 s until both deadlines b has 5 maps of
    10 s left and lacks 50/90 = 0.56 slots, c has 9 maps left and lacks 90/90 = 1. So c starts a map. Then c
    lacks (10 + 80)/90 - 1 = 0 slots, and b starts a map in the other slot.
    """
    world = World(build_policy("pd:probe=1"), [node("n1", maps=2)])
    world.submit(job("b", 6, reduces=1, deadline_s=100.0)).submit(
        job("c", 10, reduces=1, deadline_s=100.0)
    ).run()
    assert launched(world, 0, 1) == ["b", "c"]
    assert launched(world, 10, 11) == ["c", "b"]


def test_jobs_without_a_deadline_get_what_is_left_in_the_order_of_fifo():
    world = World(build_policy("pd"), [node("n1", maps=1)])
    world.submit(job("a", 2)).submit(job("b", 2, submit_s=1, priority="high")).run()
    assert launched(world, 0, 1000) == ["a", "b", "b", "a"]
    assert {row.reason for row in world.tape.decisions if row.answer == "launch"} == {
        "no preferred node; spare slot, no deadline"
    }


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ("pd:probe=0", "probe: '0' is not a whole number, 1 or more"),
        ("pd:remaining=luck", "not one of mean, progress"),
    ],
)
def test_bad_settings_are_bad_input(spec: Any, why: str):
    with pytest.raises(BadInput, match=why):
        build_policy(spec)
