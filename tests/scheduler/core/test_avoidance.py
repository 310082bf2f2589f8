"""Nodes that a job avoids: after failures of a task on the node, and while the node's disk is full."""

from __future__ import annotations

import pytest

from schedbed.scheduler.registry.registry import build_policy
from schedbed.tasks.errors import DISK_FULL
from tests.harness.world import World, job, node


def test_a_task_does_not_go_back_to_the_node_where_it_failed():
    """Every reduce that starts on n1 fails.

    A reduce that failed is not retried on n1, but other reduces may still start on n1.
    """
    world = World(build_policy("fifo"), [node("n1", reduces=2), node("n2")])
    world.failing = lambda attempt, name: "bad luck" if name == "n1" and "_r_" in attempt else None
    world.submit(job("job_0001", 1, reduces=6)).run()
    assert world.ended_jobs() == {"job_0001": "succeeded"}
    failed = [row.task for row in world.tape.attempts if row.state == "failed"]
    assert len(failed) == len(set(failed)) >= 3


def test_a_job_comes_back_to_a_node_once_the_failed_task_runs_elsewhere():
    """An attempt fails on n1.

    Other tasks of the job use n1 again as soon as the failed task has started on n2.
    """
    world = World(build_policy("fifo"), [node("n1"), node("n2")])
    world.failing = lambda attempt, _: "bad luck" if attempt == "job_0001_m_000000_0" else None
    world.submit(job("job_0001", 6)).run()
    row = {row.attempt: row.node for row in world.tape.attempts}
    assert (row["job_0001_m_000000_0"], row["job_0001_m_000000_1"]) == ("n1", "n2")
    assert sum(name == "n1" for name in row.values()) > 1


def test_a_task_that_has_failed_everywhere_is_tried_again():
    """A task that has failed on both nodes of the cluster is retried on them, and succeeds at the fourth
    attempt.
    """
    world = World(build_policy("fifo"), [node("n1"), node("n2")])
    world.failing = lambda attempt, _: None if attempt.endswith("_3") else "bad luck"
    world.submit(job("job_0001", 1)).run()
    assert [row.node for row in world.tape.attempts][:2] == ["n1", "n2"]
    assert world.ends("failed") == [f"job_0001_m_000000_{number}" for number in range(3)]
    assert world.ended_jobs() == {"job_0001": "succeeded"}


@pytest.mark.parametrize("freed_s", [8, 1000])
def test_a_job_avoids_a_node_while_its_disk_is_full(freed_s: int):
    """After one attempt failed because the disk of n1 is full, no attempt starts on n1 until the disk has
    room, at `freed_s`.
    """
    world = World(build_policy("fifo"), [node("n1"), node("n2")])
    full = world.trackers["n1"]
    full.disk_full = True

    def has_room() -> None:
        full.disk_full = False

    world.failing = lambda _, name: DISK_FULL if name == "n1" and full.disk_full else None
    world.submit(job("job_0001", 30)).at(freed_s, has_room).run()
    assert world.ended_jobs() == {"job_0001": "succeeded"}
    assert len(world.ends("failed")) == 1
    there = [row for row in world.tape.attempts if row.node == "n1" and row.state == "succeeded"]
    assert bool(there) is (freed_s < 1000) and all(row.assigned >= freed_s for row in there)
