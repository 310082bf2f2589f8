"""The policy MIMP by hand: its model of task durations, the choice of nodes for jobs, and jobs at risk of
missing their deadlines.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from schedbed.scheduler.order.mimp import (
    ResidualTimes,
    SlotsLeft,
    TaskTime,
    mean_free_cpu,
    normal_time,
    tasks_per_s,
)
from schedbed.scheduler.registry.registry import build_policy
from schedbed.tasks.errors import BadInput
from tests.harness.world import World, job, node

HALF = ((0.0, 0.5),)


def test_the_mean_share_that_was_left_by_hand():
    """Mean share of a node's CPU that other programs leave free.

    From 20 s to 70 s: 10 s with 20%, 30 s with 100% and 10 s with 50% are 2 + 30 + 5 = 37 of 50 s.
    """
    shared = node("n1", foreground=((10.0, 0.8), (30.0, 0.0), (60.0, 0.5)))
    assert mean_free_cpu(shared, 20.0, 70.0) == pytest.approx(0.74)
    assert mean_free_cpu(shared, 0.0, 10.0) == 1.0
    assert mean_free_cpu(shared, 15.0, 15.0) == pytest.approx(0.2)
    assert mean_free_cpu(node("n2"), 0.0, 50.0) == 1.0


def test_the_model_by_hand():
    """A model is fitted to tasks that took 14 s on a whole CPU and 24 s on half of one: 4 s + 10 s / share.

    With two slots on each kind of node 2/14 + 2/24 tasks end per second. The mean duration over the slots is
    19 s.
    """
    times = ResidualTimes()
    assert times.fitted() == (0.0, 1.0) and not times
    times.add(1.0, 14.0)
    assert times.fitted() == (0.0, pytest.approx(14.0)) and times
    times.add(0.5, 24.0)
    assert times.fitted() == (pytest.approx(4.0), pytest.approx(10.0))
    levels = [SlotsLeft(1.0, 2), SlotsLeft(0.5, 2)]
    assert tasks_per_s(TaskTime(4.0, 10.0), levels) == pytest.approx(2 / 14 + 2 / 24)
    assert normal_time(TaskTime(4.0, 10.0), 1.0, levels) == pytest.approx(14 / 19)
    assert normal_time(TaskTime(4.0, 10.0), 0.5, levels) == pytest.approx(24 / 19)


@pytest.mark.parametrize(
    ("half_s", "fitted"),
    [
        (10.0, (10.0, 0.0)),  # waits for disks only
        (8.0, (9.0, 0.0)),  # was faster by chance
        (30.0, (0.0, 14.0)),  # would be less than nothing on disks: (1 x 10 + 2 x 30) / (1 + 4)
    ],
)
def test_neither_part_of_a_task_is_below_zero(half_s: float, fitted: tuple[float, float]):
    times = ResidualTimes()
    times.add(1.0, 10.0)
    times.add(0.5, half_s)
    assert times.fitted() == (pytest.approx(fitted[0]), pytest.approx(fitted[1]))


def launches(world: World) -> list[tuple[str, str]]:
    """Return the node and job of each launched map, in the order of launches."""
    return [(row.node, row.job) for row in world.tape.decisions if row.answer == "launch"]


def test_each_job_goes_where_it_loses_least():
    """Job kind `cpu` runs on the dedicated node d and kind `io` on node s, half of whose CPU is in use.

    Each node has one map slot. Maps of io take 10 s on both nodes, maps of cpu 10 s on d and 20 s on s.
    Durations are known only after the commit of the output, which follows the heartbeat with the map's end.
    So FIFO gives both slots to io at 0 s and to cpu at 10 s. At 20 s io is known on both nodes. The maps of
    cpu, known on d only, are assumed to be limited by the CPU: 0.67 of the mean time on d, 1.33 on s. So job
    cpu2 runs on d, and io2 on s, until cpu2 has no map left. Then d starts io2, since no slot may idle.
    """
    world = World(build_policy("mimp"), [node("d"), node("s", foreground=HALF)])
    world.lasts = lambda attempt, name: 20_000 if name == "s" and attempt.startswith("cpu") else 10_000
    world.submit(job("io", 2)).submit(job("cpu", 2, submit_s=1))
    world.submit(replace(job("cpu2", 3, submit_s=2), name="cpu"))
    world.submit(replace(job("io2", 3, submit_s=3), name="io")).run()
    found = launches(world)
    assert [job for where, job in found if where == "d"] == ["io", "cpu", "cpu2", "cpu2", "cpu2", "io2"]
    assert [job for where, job in found if where == "s"] == ["io", "cpu", "io2", "io2"]
    reasons = [row.reason for row in world.tape.decisions if row.answer == "launch"]
    assert "no preferred node; no map like it has ended yet; 50% of the CPU is free" in reasons
    assert "no preferred node; 0.67 of its mean time here, where 100% of the CPU is free" in reasons
    assert "no preferred node; 1.00 of its mean time here, where 50% of the CPU is free" in reasons


def test_a_job_at_risk_comes_first():
    """A job at risk of missing its deadline is first in order.

    One slot, maps of 10 s whose duration is known from 20 s on. At 20 s the two maps of b need 20 s. As 1.2 x
    20 s is more than the 21 s until the deadline at 41 s, b is at risk, and also at 30 s. With a deadline 8 s
    later b is at risk only at 30 s.
    """

    def simulated(deadline_s: float) -> World:
        world = World(build_policy("mimp"), [node("n1")])
        world.submit(job("a", 4, deadline_s=1000.0))
        return world.submit(replace(job("b", 2, submit_s=1, deadline_s=deadline_s), name="a")).run()

    pressed = simulated(41.0)
    assert [name for _, name in launches(pressed)] == ["a", "a", "b", "b", "a", "a"]
    reasons = [row.reason for row in pressed.tape.decisions if row.job == "b" and row.answer == "launch"]
    assert reasons[0].startswith(
        "no preferred node; at risk: with the deadlines before it 20.0 s of the cluster"
    )
    assert [name for _, name in launches(simulated(49.0))] == ["a", "a", "a", "b", "b", "a"]


def test_a_job_is_at_risk_by_what_those_before_it_need():
    """A job's risk includes the work of jobs with earlier deadlines.

    One slot. At 20 s job c needs 20 s after the 20 s of b. These 40 s exceed the 35 s until its deadline, so
    c is at risk, although it would end in time alone. It runs before a, whose deadline is far, and before b,
    which is at risk only from 40 s on.
    """
    world = World(build_policy("mimp:margin=1"), [node("n1")])
    world.submit(job("a", 4, deadline_s=1000.0))
    world.submit(replace(job("b", 2, submit_s=1, deadline_s=54.0), name="a"))
    world.submit(replace(job("c", 2, submit_s=1, deadline_s=55.0), name="a")).run()
    assert [name for _, name in launches(world)] == ["a", "a", "c", "c", "b", "b", "a", "a"]


def test_a_job_at_risk_is_not_first_where_it_would_be_late():
    """A job at risk is first only on nodes where its map can end before the deadline.

    Maps of a and b take 10 s on d and 40 s on s, which has a quarter of its CPU. From 50 s on the three maps
    of b need 24 s of both nodes. As 1.2 x 24 s is more than the 25 s until its deadline, b is at risk and
    first on d. On s a map would end at 91 s, so the last map of c starts there before those of b. Then s
    starts a map of b, since no slot may idle.
    """
    world = World(build_policy("mimp"), [node("d"), node("s", foreground=((0.0, 0.75),))])
    world.lasts = lambda attempt, name: 40_000 if name == "s" and not attempt.startswith("c") else 10_000
    world.submit(job("a", 6)).submit(job("c", 2, submit_s=41))
    world.submit(replace(job("b", 3, submit_s=45, deadline_s=75.0), name="a")).run()
    late = [row for row in world.tape.decisions if row.answer == "launch" and row.t > 45]
    assert [(row.node, row.job) for row in late] == [("d", "b"), ("s", "c"), ("d", "b"), ("s", "b")]
    assert late[0].reason.endswith("at risk: with the deadlines before it 24.0 s of the cluster, 25.0 s left")


def test_without_deadlines_and_loads_it_is_fifo():
    world = World(build_policy("mimp"), [node("n1")])
    world.submit(job("a", 2)).submit(job("b", 2, submit_s=1, priority="high")).run()
    assert [name for _, name in launches(world)] == ["a", "b", "b", "a"]


@pytest.mark.parametrize("spec", ["mimp:margin=0", "mimp:margin=-1"])
def test_bad_settings_are_bad_input(spec: Any):
    with pytest.raises(BadInput, match="margin"):
        build_policy(spec)
