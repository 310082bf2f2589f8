"""PD: equations 5 and 6 by hand, and who comes first."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

from schedbed.scheduler.models.deadline_pace import slots_lacking
from schedbed.scheduler.registry.registry import build_policy
from schedbed.tasks.errors import BadInput
from tests.harness.world import World, job, node


def launched(world: World, first_s: float, last_s: float) -> list[str]:
    """The jobs of the maps that were launched then."""
    rows = [row for row in world.tape.decisions if row.answer == "launch" and row.kind == "map"]
    return [row.job for row in rows if first_s <= row.t < last_s]


def test_equation_6_by_hand():
    """Tasks of 10 s; two run with 4 and 6 s left, eight have not started: (10/10 + 8) x 10 = 90 s of work. In 30 s that
    are 3 slots, one more than there are; in 60 s 1.5, half a slot too many; after the goal no number is enough.
    """
    assert slots_lacking(10, 4 + 6, 8, 2, 30) == pytest.approx(1)
    assert slots_lacking(10, 4 + 6, 8, 2, 60) == pytest.approx(-0.5)
    assert slots_lacking(10, 10, 8, 2, 0) == slots_lacking(10, 10, 8, 2, -5) == inf


@pytest.mark.parametrize("remaining", ["mean", "progress"])
def test_a_job_gets_the_slots_that_its_deadline_needs(remaining: str):
    """By hand: four slots, maps of 10 s. At 0 s b (12 maps, due at 60 s) is new: a probe of two first, the others to a,
    which came first. At 10 s two of b have ended: 10 maps x 10 s in 50 s are 2 slots, so b gets two again and a two; so
    it goes on, 2 slots for 8 maps in 40 s, until its maps end at 60 s. FIFO would start them after a's 24, at 60 s.
    """
    world = World(build_policy(f"pd:remaining={remaining}"), [node("n1", maps=4)])
    world.submit(job("a", 24)).submit(job("b", 12, reduces=1, deadline_s=60.5)).run()
    for wave in range(6):
        assert sorted(launched(world, 10 * wave, 10 * wave + 9)) == ["a", "a", "b", "b"], wave
    reasons = [row.reason for row in world.tape.decisions if row.job == "b" and row.kind == "map"]
    assert reasons[0] == "no preferred node; probe 1 of 2: no map of it has ended yet"
    assert reasons[2].startswith("no preferred node; lacks 1.98 slots: 10.0 s a map, 50.5 s left, 0 running")


def test_late_jobs_come_first_and_the_earliest_of_them():
    """At 10 s both deadlines have passed: c (due at 2 s) before b (due at 5 s) before a."""
    world = World(build_policy("pd:probe=1"), [node("n1", maps=1)])
    world.submit(job("a", 4)).submit(job("b", 2, submit_s=1, deadline_s=5.0))
    world.submit(job("c", 2, submit_s=1, deadline_s=2.0)).run()
    assert launched(world, 0, 1000) == ["a", "c", "c", "b", "b", "a", "a", "a"]
    assert "no preferred node; its deadline has passed by 8.0 s" in [
        row.reason for row in world.tape.decisions
    ]


def test_who_lacks_most_comes_first():
    """By hand, after a probe of one map each that ends at 10 s: b has 5 maps of 10 s for 90 s, c 9 maps for 90 s. B
    lacks 50/90 = 0.56 slots, c 90/90 = 1: c's map is first, then c lacks (10 + 80)/90 - 1 = 0 and b has the other slot.
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
