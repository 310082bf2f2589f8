"""The policy Hadoop On Demand (HOD): each user's private nodes, idle nodes, and guests on the nodes of
others.
"""

from __future__ import annotations

from typing import Any

import pytest

from schedbed.scheduler.registry.registry import build_policy
from schedbed.tasks.errors import BadInput
from tests.harness.world import GIB, World, job, node


def nodes_of(world: World, job_id: str) -> set[str]:
    """Return the nodes on which tasks of the job were launched."""
    return {row.node for row in world.tape.decisions if row.answer == "launch" and row.job == job_id}


def four(policy: Any, **changes: Any) -> World:
    """Return a world of four nodes with one map slot each and maps of 10 s: six maps of ana at 0 s, two of bo
    at 1 s.
    """
    world = World(build_policy(policy), [node(f"n{number}", **changes) for number in (4, 2, 3, 1)])
    return world.submit(job("a", 6)).submit(job("b", 2, user="bo", submit_s=1))


def finish_s(world: World) -> dict[str, float]:
    """Return a dictionary from job to the time of its end in whole seconds."""
    return {row.job: round(row.finish) for row in world.tape.jobs}


def test_a_private_cluster_leaves_idle_what_others_could_use():
    """Under HOD nodes idle that other users could use; under FIFO they do not.

    Nodes n1 and n3 belong to ana, n2 and n4 to bo. The six maps of ana run in three waves of two, until 30 s.
    The two maps of bo run from 1 s to 11 s, and then his nodes idle. FIFO runs four maps at 0 s and four at
    10 s, until 20 s.
    """
    world = four("hod").run()
    assert finish_s(world) == {"a": 30, "b": 11}
    assert nodes_of(world, "a") == {"n1", "n3"} and nodes_of(world, "b") == {"n2", "n4"}
    assert finish_s(four("fifo").run()) == {"a": 20, "b": 20}


def test_the_administrator_says_who_has_how_many_nodes():
    """With one node configured for bo, the other three belong to ana. Her six maps are two waves of three."""
    world = four({"hod": {"clusters": {"bo": {"nodes": 1}}}}).run()
    assert nodes_of(world, "b") == {"n1"} and nodes_of(world, "a") == {"n2", "n3", "n4"}
    assert finish_s(world) == {"a": 20, "b": 21}


def test_queues_may_have_the_clusters():
    world = World(build_policy({"hod": {"cluster_by": "queue"}}), [node("n1"), node("n2")])
    world.submit(job("a", 2)).submit(job("b", 2, queue="night")).submit(job("c", 2, user="bo")).run()
    assert nodes_of(world, "a") == nodes_of(world, "c") == {"n1"} and nodes_of(world, "b") == {"n2"}


def test_explain_says_whose_node_it_is_and_why_others_do_not_get_it():
    reasons = {row.reason for row in four("hod").run().tape.decisions}
    assert "no preferred node; private cluster part 1, 2 nodes" in reasons
    assert "private cluster part 1; the node belongs to part 2" in reasons


def test_users_take_turns_when_there_are_more_of_them_than_clusters():
    world = World(build_policy("hod"), [node("n1"), node("n2")])
    for number, user in enumerate(("ana", "bo", "cy")):
        world.submit(job(user, 1, user=user, submit_s=number / 10))
    world.run()
    assert nodes_of(world, "ana") == nodes_of(world, "cy") == {"n1"} and nodes_of(world, "bo") == {"n2"}


def test_jobs_are_guests_when_their_cluster_is_lost():
    """Ana's only node n1 is lost. Her maps run on n2, which belongs to bo, after his own maps."""
    world = World(build_policy("hod"), [node("n1"), node("n2")])
    world.submit(job("a", 3)).submit(job("b", 2, user="bo", submit_s=1))
    world.at(5, lambda: world.crash("n1")).run()
    assert world.ended_jobs() == {"a": "succeeded", "b": "succeeded"}
    [guest] = {row.reason for row in world.tape.decisions if "guest" in row.reason}
    assert guest == "no preferred node; guest in private cluster part 2: no node of part 1 can run it now"


def test_a_job_is_a_guest_where_its_own_nodes_are_too_small():
    nodes = [node("n1", memory_bytes=GIB), node("n2")]
    world = World(build_policy("order=hod,admission=containers"), nodes)
    world.submit(job("a", 1, memory=2 * GIB)).submit(job("b", 1, user="bo")).run()
    assert nodes_of(world, "a") == {"n2"}


def test_a_job_that_avoids_its_only_node_is_a_guest():
    """After failures on its user's only node n1, a job avoids n1 and runs on n2."""
    world = World(build_policy("hod"), [node("n1"), node("n2")])
    world.failing = lambda attempt, name: "it fails here" if name == "n1" else None
    world.submit(job("a", 1)).run()
    assert world.ended_jobs() == {"a": "succeeded"} and "n2" in nodes_of(world, "a")


def test_nodes_that_come_later_go_to_the_smallest_cluster():
    world = World(build_policy("hod:parts=3"), [node("n1"), node("n2")])
    world.submit(job("a", 1)).submit(job("b", 1, user="bo")).submit(job("c", 1, user="cy", submit_s=5))
    world.at(2, lambda: world.do("register", node("n3"), 1)).run(until_s=4)
    order = world.driver.core.ledger.nodes
    assert list(order) == ["n1", "n2", "n3"]
    world.run()
    assert nodes_of(world, "c") <= {
        "n1",
        "n2",
    }  # n3 registered and never spoke; cy is a guest as long as it is silent


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"hod": {"clusters": {"ana": {"nodes": 0}}}}, "cluster ana: nodes: 0 is not a whole number above 0"),
        ({"hod": {"clusters": {"ana": {}}}}, "cluster ana: nodes is missing"),
        ("hod:parts=0", "parts: '0' is not a whole number, 1 or more"),
    ],
)
def test_bad_clusters_are_bad_input(spec: Any, why: str):
    with pytest.raises(BadInput, match=why):
        build_policy(spec)


def test_a_locality_that_plans_for_all_nodes_keeps_to_the_private_clusters():
    """The locality LSAP, which assigns maps to nodes in advance, plans each user's maps only for the user's
    own nodes.
    """
    world = four("order=hod,locality=lsap").run()
    assert nodes_of(world, "a") == {"n1", "n3"} and nodes_of(world, "b") == {"n2", "n4"}
    assert finish_s(world) == {"a": 30, "b": 11}
