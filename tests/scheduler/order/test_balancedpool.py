"""The policy BalancedPool by hand: Johnson's order, the division of jobs into two pools, and the pools'
slots.
"""

from __future__ import annotations

import pytest

from schedbed.scheduler.models.johnson import PlannedStages, balanced_pools, johnson, simulated_s
from schedbed.scheduler.models.task_times import StageTimes
from schedbed.scheduler.registry.registry import build_policy
from tests.harness.world import World, job, node


def test_johnsons_order_by_hand() -> None:
    """Johnson's order of five jobs on one map slot and one reduce slot, with (map, reduce) seconds.

    First come the jobs whose maps take less time, shortest maps first: B (1, 6), D (3, 8). Then come the
    others, longest reduces first: C (9, 7), E (10, 4), A (5, 2). Maps end at 1, 4, 13, 23 and 28 s. Reduces
    run at 1-7, 7-15, 15-22, 23-27 and 28-30 s.
    """
    times = {"A": (5, 2), "B": (1, 6), "C": (9, 7), "D": (3, 8), "E": (10, 4)}
    jobs = [PlannedStages(name, 1, maps, 1, reduces) for name, (maps, reduces) in times.items()]
    ordered, makespan_s = johnson(jobs, 1, 1)
    assert [each.job for each in ordered] == ["B", "D", "C", "E", "A"] and makespan_s == 30


def test_two_pools_end_sooner_than_one_by_hand() -> None:
    """Two map slots. Job a has two maps of 10 s, job b one map of 20 s.

    In one pool b waits for a, in the order in which they came: 10 + 20 = 30 s. With a slot each, both end at 20 s.
    """
    jobs = [PlannedStages("a", 2, 10.0, 0, 0.0), PlannedStages("b", 1, 20.0, 0, 0.0)]
    assert johnson(jobs, 2, 2)[1] == 30
    small, big = balanced_pools(jobs, 2, 2, 7)
    assert (small.maps, small.jobs, small.makespan_s) == (1, ("a",), 20)
    assert (big.maps, big.jobs, big.makespan_s) == (1, ("b",), 20)


def test_a_plan_is_simulated_task_by_task() -> None:
    """Two slots of each kind. Job a has 3 maps of 10 s and a reduce of 4 s, b 2 maps of 5 s and 2 reduces of 8 s.

    Maps of a end at 10, 10 and 20 s, those of b at 15 and 20 s in the slot that a leaves free. The reduce of a runs
    from 20 to 24 s, those of b from 20 to 28 s and from 24 to 32 s. Whole stages would take 20 + 5 + 8 = 33 s.
    """
    jobs = [PlannedStages("a", 3, 10.0, 1, 4.0), PlannedStages("b", 2, 5.0, 2, 8.0)]
    assert simulated_s(jobs, 2, 2) == 32


def test_one_pool_stays_when_no_split_is_better() -> None:
    """A single job with four maps of 5 s ends at 10 s on two slots. It stays in one pool."""
    (only,) = balanced_pools([PlannedStages("c", 4, 5.0, 0, 0.0)], 2, 2, 7)
    assert (only.maps, only.jobs, only.makespan_s) == (2, ("c",), 10)


def simulated(monkeypatch: pytest.MonkeyPatch) -> World:
    """Return a world that has run jobs a and b of the test above on a node with two slots.

    The policy knows the duration of each map.
    """
    jobs = {"a": (2, 10.0), "b": (1, 20.0)}
    monkeypatch.setattr(StageTimes, "task_s", lambda *about: jobs[about[2].job][1])
    world = World(build_policy("balancedpool"), [node("n1", maps=2, reduces=2, cores=4)], task_ms=5_000)
    for name, (maps, _) in jobs.items():
        world.submit(job(name, maps))
    world.run()
    return world


def test_each_pool_gets_its_slots_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    launches = [row for row in simulated(monkeypatch).tape.decisions if row.answer == "launch"]
    first, second = launches[:2]
    assert {first.job, second.job} == {"a", "b"}
    assert "number 1 by Johnson in the pool of small jobs, 0 of 1 map slots used" in first.reason
    assert "estimated makespan 20.0 s and 20.0 s" in first.reason
