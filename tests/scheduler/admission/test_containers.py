"""Admission by memory and vcores: which tasks start, and when waiting reduces are killed to make room for
maps.
"""

from __future__ import annotations

from schedbed.scheduler.registry.registry import build_policy
from tests.harness.world import GIB, World, job, node

CONTAINERS = "order=fifo,admission=containers"


def test_memory_and_vcores_bound_what_runs():
    """A node with 4 GiB and 2 cores runs two maps: two of 2 GiB fill its memory, two of 1 GiB use all its
    vcores.
    """
    for memory in (2 * GIB, GIB):
        world = World(build_policy(CONTAINERS), [node("n1", maps=9)])
        world.submit(job("job_0001", 4, memory=memory)).run(until_s=5)
        assert len(world.launches()) == 2


def test_a_smaller_job_gets_what_a_bigger_one_cannot_use():
    """With 3 of 4 GiB in use, a second map of 3 GiB waits, a map of 1 GiB starts, and the skip states the
    reason.
    """
    world = World(build_policy(CONTAINERS), [node("n1")])
    world.submit(job("big", 2, memory=3 * GIB)).submit(job("small", 1, memory=GIB, submit_s=1)).run()
    assert [line.split()[1] for line in world.launches()] == [
        "big_m_000000",
        "small_m_000000",
        "big_m_000001",
    ]
    skips = [row for row in world.tape.decisions if row.answer == "skip"]
    assert {(row.job, row.reason) for row in skips} == {("big", "not enough memory is free")}


def test_reduces_give_way_to_maps_that_must_run_again():
    """Node n2 crashes with finished maps while reduces that need their outputs occupy all of n1.

    The job still ends.
    """
    nodes = [node("n1", cores=2), node("n2", cores=2)]
    world = World(build_policy(CONTAINERS + ":stall_timeout=2s"), nodes, slowstart=0.5)
    world.submit(job("job_0001", 4, reduces=2))
    world.durations["job_0001"] = 10_000
    world.at(20.2, lambda: world.crash("n2")).run()
    assert world.ended_jobs() == {"job_0001": "succeeded"}


def test_two_jobs_whose_reduces_hold_all_the_room():
    """Reduces of two jobs use every vcore when the node with all map outputs is lost.

    Some reduces are killed.
    """
    nodes = [node("n1", cores=4), node("n2", cores=2), node("n3", cores=2)]
    world = World(build_policy(CONTAINERS), nodes, slowstart=1.0)
    for name in ("job_0001", "job_0002"):
        world.durations[name] = 30_000
        world.submit(job(name, 2, reduces=3, memory=GIB // 2))
    world.at(31.5, lambda: world.crash("n1")).run()
    assert set(world.ended_jobs().values()) == {"succeeded"}
    kills = [row for row in world.tape.decisions if row.answer == "kill"]
    assert kills and {row.reason for row in kills} == {"its job's maps find no room"}


def test_small_reduces_do_not_take_back_the_room_that_a_big_map_waits_for():
    """A map of 3 GiB must run again on a node where three reduces of 1 GiB run.

    Two reduces are killed, and no reduce starts again before the map.
    """
    nodes = [node("n1", cores=8), node("n2", cores=2)]
    world = World(build_policy(CONTAINERS + ":stall_timeout=2s"), nodes)
    world.submit(job("job_0001", 4, reduces=4, memory=3 * GIB, reduce_memory=GIB))
    world.at(21, lambda: world.crash("n2")).run(limit_s=300)
    assert world.ended_jobs() == {"job_0001": "succeeded"}
    assert len([row for row in world.tape.decisions if row.answer == "kill"]) == 2


def test_room_on_a_node_that_the_job_avoids_is_no_room():
    """The job avoids n1, where a map failed.

    Its reduce on n2 is killed, because it uses the only core left for the map.
    """
    nodes = [node("n1", cores=1), node("n2", cores=1)]
    world = World(build_policy(CONTAINERS + ":stall_timeout=2s"), nodes)
    world.failing = lambda attempt, where: "bad disk" if where == "n1" else None
    world.lasts = lambda attempt, where: 2000 if attempt == "job_0001_m_000001_0" else None
    world.submit(job("job_0001", 2, reduces=1)).run(limit_s=300)
    assert world.ended_jobs() == {"job_0001": "succeeded"}
    assert {row.reason for row in world.tape.decisions if row.answer == "kill"} == {
        "its job's maps find no room"
    }
