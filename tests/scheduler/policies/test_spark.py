"""Spark's scheduler step by step: pools, the locality timer, and offers of all slots at once."""

from __future__ import annotations

from typing import Any

import pytest

from schedbed.scheduler.models.locality_timer import ANY, NODE, RACK, LocalityTimer
from schedbed.scheduler.models.pool_tree import SparkPool, SparkPoolSettings
from schedbed.scheduler.registry.registry import build_policy
from schedbed.tasks.errors import BadInput
from schedbed.tasks.specs import TaskKind
from tests.harness.world import World, job, node

MAP = TaskKind.MAP


class Runs:
    """A member of a pool that runs so many tasks, and always has more."""

    weight, min_share = 1.0, 0

    def __init__(self, name: str, stage: int, running: int) -> None:
        self.name, self.stage, self._running = name, stage, running

    def running(self, kind: TaskKind) -> int:
        return self._running

    def sets(self, kind: TaskKind) -> Any:
        yield self.name


def order(settings: dict[str, SparkPoolSettings], running: dict[str, list[int]]) -> list[str]:
    """Return the task sets of the pools in the order in which slots are offered; `a1` is pool a's second."""
    root = SparkPool("root", SparkPoolSettings(inside="fair", pools=settings))
    stage = 0
    for pool, sets in running.items():
        found = root.find(pool)
        assert found is not None
        for number, tasks in enumerate(sets):
            found.members[f"{pool}{number}"] = Runs(f"{pool}{number}", stage, tasks)
            stage += 1
    return list(root.sets(MAP))


def test_pools_below_their_min_share_come_first_by_its_used_share():
    """SchedulingAlgorithm.FairSchedulingAlgorithm: c lacks 3 of 4, b 1 of 2; a has the least tasks per weight."""
    pools = {
        "a": SparkPoolSettings(weight=10),
        "b": SparkPoolSettings(min_share=2),
        "c": SparkPoolSettings(min_share=4),
    }
    assert order(pools, {"a": [1], "b": [1], "c": [1]}) == ["c0", "b0", "a0"]
    assert order(pools, {"a": [1], "b": [2], "c": [4]}) == ["a0", "b0", "c0"]


def test_ties_go_by_name_and_a_pool_is_fifo_inside_unless_it_says_fair():
    """b0 runs more than b1 but was submitted first; in the fair pool c the one with fewer tasks comes first."""
    pools = {"c": SparkPoolSettings(inside="fair"), "b": SparkPoolSettings()}
    assert order(pools, {"c": [3, 1], "b": [4, 0]}) == ["b0", "b1", "c1", "c0"]


def test_a_pool_in_a_pool_counts_for_the_outer_one():
    """p has 3 tasks in its pools, q 2; inside p, r lacks its min share."""
    inner = {"r": SparkPoolSettings(min_share=2), "s": SparkPoolSettings()}
    pools = {"p": SparkPoolSettings(inside="fair", pools=inner), "q": SparkPoolSettings()}
    assert order(pools, {"r": [1], "s": [2], "q": [2]}) == ["q0", "r0", "s0"]


def test_a_level_is_left_after_its_wait_or_at_once_without_tasks():
    timer = LocalityTimer(10.0, {NODE: 3.0, RACK: 2.0})
    levels = (NODE, RACK, ANY)
    assert timer.allowed(12.9, levels, lambda level: True) == NODE
    assert timer.allowed(13.0, levels, lambda level: True) == RACK
    # The wait at the rack runs from 13 s on, whenever somebody asks.
    assert timer.allowed(14.9, levels, lambda level: True) == RACK
    assert timer.allowed(15.0, levels, lambda level: True) == ANY
    timer.reset(16.0, NODE)
    assert timer.allowed(16.0, levels, lambda level: level == RACK) == RACK
    assert timer.allowed(17.9, levels, lambda level: True) == RACK
    timer.reset(20.0, NODE)
    assert timer.allowed(20.0, (RACK, ANY), lambda level: True) == RACK, "no live node has the data"


def spark(nodes: int = 3, maps: int = 2, policy: str = "spark-fifo", **changes: Any) -> World:
    return World(build_policy(policy), [node(f"n{i + 1}", maps=maps) for i in range(nodes)], **changes)


def test_a_job_is_spread_over_the_nodes_one_map_a_node_and_pass():
    """Three maps for six free slots: each of three nodes gets one (resourceOfferSingleTaskSet)."""
    world = spark().submit(job("job_0001", 3, submit_s=1.0)).run()
    assert sorted(line.split()[2] for line in world.launches()) == ["n1", "n2", "n3"]


def test_maps_planned_for_a_node_that_is_lost_start_elsewhere():
    """All slots are planned at 1 s by n1's heartbeat; n2 is silent from then on."""
    world = spark(nodes=2, expiry_s=5.0, heartbeat_ms=500)
    world.submit(job("job_0001", 4, submit_s=1.0)).at(0.9, lambda: world.crash("n2"))
    world.run()
    assert {line.split()[2] for line in world.launches()} == {"n1"}
    assert world.ended_jobs() == {"job_0001": "succeeded"}


def test_a_map_that_failed_starts_again():
    world = spark(nodes=2)
    world.failing = lambda attempt, name: "broken" if attempt == "job_0001_m_000001_0" else None
    world.submit(job("job_0001", 2, submit_s=1.0)).run()
    assert world.ended_jobs() == {"job_0001": "succeeded"}
    assert len(world.launches()) == 3


@pytest.mark.parametrize("reset", ["full", "launch"])
def test_what_restarts_the_wait(reset: str) -> None:
    """n1 has the data of all maps, and one slot; maps take 2 s.

    Since Spark 3.1 the map that starts on n1 at 3 s restarts nothing, since n2 was declined from 1 s on: n2 gets one
    at 4 s. Before, each launch on n1, every 2 s, restarts the wait of 3 s, so n2 never gets one.
    """
    world = spark(nodes=2, maps=1, policy=f"spark-fifo:wait=3s,reset={reset}", task_ms=2000)
    world.submit(job("job_0001", ["n1"] * 4, submit_s=1.0)).run()
    elsewhere = [float(line.split()[0]) for line in world.launches() if line.split()[2] == "n2"]
    if reset == "launch":
        assert elsewhere == []
    else:
        assert 4.0 <= elsewhere[0] <= 5.5
    assert world.ended_jobs() == {"job_0001": "succeeded"}


def test_pools_may_not_share_a_name():
    pools = {"a": {"pools": {"b": {}}}, "b": {}}
    with pytest.raises(BadInput, match="pool b: there are two pools with this name"):
        build_policy({"spark-fair": {"pools": pools}})
    with pytest.raises(BadInput, match="pool b: 'size' is unknown"):
        build_policy({"spark-fair": {"pools": {"a": {"pools": {"b": {"size": 1}}}}}})
