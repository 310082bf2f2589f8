"""Blocks return to their number of replicas after accidents, and the last good replica is never deleted."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.harness.block_store import World

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["kill", "revive", "spoil", "report", "beat", "reboot"]),
        st.integers(0, 30),
        st.integers(0, 30),
    ),
    max_size=40,
)


def step(world: World, what: str, which: int, other: int) -> None:
    """Apply the accident or heartbeat `what`, unless it would destroy the last good replica of a block.

    `which` chooses the node and `other` the block.
    """
    dead = [node for node in world.racks if node not in world.alive]
    node = world.alive[which % len(world.alive)]
    world.now_s += 1.0
    if what == "beat":
        world.heartbeat(node)
    elif what == "revive" and dead:
        world.revive(dead[which % len(dead)])
    elif what == "kill" and all(set(world.good(block)) - {node} for block in wanted(world)):
        world.kill(node)
    elif what == "reboot":
        world.names.heartbeat(world.now_s, node)  # the commands are lost on the way
        world.register(node)
    elif what in ("spoil", "report") and world.disks[node]:
        block = list(world.disks[node])[other % len(world.disks[node])]
        if set(world.good(block)) - {node}:
            world.spoil(node, block)
            if what == "spoil":
                world.names.block_event(world.now_s, node, "corrupt", block, 0)
            else:
                world.names.report_bad(world.now_s, block, node)


def wanted(world: World) -> list[str]:
    return [block for path in ("/in/a", "/out/b") for block in world.known(path)]


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 9), st.integers(1, 3), st.integers(1, 4), STEPS)
def test_any_accidents_that_leave_a_replica_are_repaired_to_exactly_the_factor(
    nodes: int, racks: int, replication: int, steps: list[Any]
) -> None:
    world = World(nodes, racks)
    world.upload("/in/a", [10, 10, 4], replication)
    world.write("/out/b", 7, replication, writer="n1")
    for what, which, other in steps:
        step(world, what, which, other)
        assert all(world.good(block) for block in wanted(world)), "the last good replica is gone"
    world.settle()
    factor = min(replication, len(world.alive))
    for path in ("/in/a", "/out/b"):
        for block, holders in world.known(path).items():
            assert len(holders) == factor
            assert set(holders) <= set(world.good(block))
    report = world.names.fsck()
    assert report["missing"] == report["corrupt"] == report["over_replicated"] == []
    assert bool(report["under_replicated"]) == (factor < replication)


def test_the_most_endangered_blocks_are_copied_first() -> None:
    world = World(6, copies_per_node=1)
    safe = world.write("/safe", 10, 4, writer="n1")["nodes"]
    frail = world.write("/frail", 10, 4, writer="n1")["nodes"]
    world.names.report_bad(1.0, "blk_0000000001", safe[1])
    for node in frail[1:]:
        world.names.report_bad(1.0, "blk_0000000002", node)
    orders = [c for c in world.names.heartbeat(2.0, "n1") if c["type"] == "replicate"]
    assert [order["block"] for order in orders] == ["blk_0000000002"]


def test_a_node_sends_and_receives_no_more_copies_than_its_limit() -> None:
    world = World(4, copies_per_node=2)
    world.upload("/in/a", [10] * 24, 3, placement="even")
    world.kill("n4")
    world.revive("n4")
    world.kill("n3")
    orders = {node: world.names.heartbeat(2.0, node) for node in world.alive}
    copies = {n: [c for c in cs if c["type"] == "replicate"] for n, cs in orders.items()}
    assert all(len(given) <= 2 for given in copies.values())
    receiving = Counter(c["to"][0] for given in copies.values() for c in given)
    assert receiving and max(receiving.values()) <= 2


def test_the_source_is_the_live_holder_that_sends_least() -> None:
    world = World(6)
    world.upload("/in/a", [10] * 6, 2, preferred=[["n1", "n2"]] * 6)
    world.upload("/in/b", [10, 10], 3, preferred=[["n1", "n2", "n3"]] * 2)
    world.kill("n3")
    orders = {n: [c for c in world.names.heartbeat(1.0, n) if c["type"] == "replicate"] for n in ("n1", "n2")}
    assert [len(given) for given in orders.values()] == [1, 1]


def test_a_copy_that_never_arrives_is_ordered_again_after_the_timeout() -> None:
    world = World(3, copy_timeout_s=30.0)
    world.write("/a", 10, 2, writer="n1")
    other = next(node for node in world.known("/a")["blk_0000000001"] if node != "n1")
    world.kill(other)
    assert len(world.names.heartbeat(10.0, "n1")) == 1
    assert world.names.heartbeat(39.0, "n1") == []
    assert len(world.names.heartbeat(40.0, "n1")) == 1


def test_a_copy_to_a_node_that_dies_is_ordered_to_another_at_once() -> None:
    world = World(4)
    nodes = world.write("/a", 10, 2, writer="n1")["nodes"]
    world.kill(nodes[1])
    target = world.names.heartbeat(1.0, "n1")[0]["to"][0]
    world.kill(target)
    again = world.names.heartbeat(1.0, "n1")[0]["to"][0]
    assert again not in (target, nodes[1], "n1")


def test_a_source_whose_replica_rotted_says_so_and_another_takes_over() -> None:
    world = World(4)
    nodes = world.write("/a", 10, 3, writer="n1")["nodes"]
    world.spoil(nodes[0], "blk_0000000001")
    world.kill(nodes[2])
    world.settle()
    holders = world.known("/a")["blk_0000000001"]
    assert len(holders) == 3
    assert holders == sorted(world.good("blk_0000000001"))


def test_on_as_many_nodes_as_replicas_a_corrupt_one_is_replaced_in_place() -> None:
    world = World(3)
    world.write("/a", 10, 3)
    world.spoil("n2", "blk_0000000001")
    world.names.block_event(1.0, "n2", "corrupt", "blk_0000000001", 0)
    world.settle()
    assert world.good("blk_0000000001") == ["n1", "n2", "n3"]
    assert ("n2", "blk_0000000001") in world.deleted


def test_a_bad_replica_is_kept_while_there_is_no_good_one() -> None:
    world = World(2)
    world.write("/a", 10, 2)
    for node in ("n1", "n2"):
        world.spoil(node, "blk_0000000001")
        world.names.block_event(1.0, node, "corrupt", "blk_0000000001", 0)
    world.settle()
    assert world.deleted == []
    assert world.names.fsck()["missing"] == ["blk_0000000001"]
    assert world.names.locate("/a")[0]["nodes"] == []


def test_a_reader_is_not_believed_about_the_last_good_replica() -> None:
    world = World(1)
    world.write("/a", 10, 1)
    world.names.report_bad(1.0, "blk_0000000001", "n1")
    assert world.names.locate("/a")[0]["nodes"] == ["n1"]


def test_a_node_that_comes_back_brings_too_many_replicas_and_these_are_trimmed() -> None:
    world = World(6, racks=2)
    world.upload("/in/a", [10] * 6, 3, placement="even")
    world.kill("n1")
    world.settle()
    world.revive("n1")
    assert world.names.fsck()["over_replicated"]
    world.settle()
    assert all(len(world.good(block)) == 3 for block in world.known("/in/a"))


def test_repaired_skewed_input_stays_on_hot_nodes_as_long_as_there_are_any() -> None:
    world = World(10)
    world.upload("/in/a", [10] * 4, 2, placement="skewed", skew=0.3)
    world.kill("n2")
    world.settle()
    assert all(holders == ["n1", "n3"] for holders in world.known("/in/a").values())
    world.kill("n3")
    world.settle()
    assert all(len(holders) == 2 and "n1" in holders for holders in world.known("/in/a").values())


def test_at_rest_a_heartbeat_orders_nothing() -> None:
    world = World(6, racks=2)
    world.upload("/in/a", [10] * 20, 3)
    assert [world.heartbeat(node) for node in world.alive] == [[]] * 6


def test_a_new_node_takes_the_replicas_that_had_no_place() -> None:
    world = World(3)
    world.kill("n3")
    world.write("/a", 10, 3)
    world.settle()
    assert world.names.fsck()["under_replicated"] == ["blk_0000000001"]
    world.revive("n3")
    world.settle()
    assert world.good("blk_0000000001") == ["n1", "n2", "n3"]


def test_a_replica_that_is_written_anew_is_good_again() -> None:
    world = World(2)
    world.write("/a", 10, 2)
    world.names.block_event(1.0, "n2", "corrupt", "blk_0000000001", 0)
    assert world.known("/a")["blk_0000000001"] == ["n1"]
    world.names.block_event(2.0, "n2", "added", "blk_0000000001", 10)
    assert world.known("/a")["blk_0000000001"] == ["n1", "n2"]


def test_a_deletion_that_is_never_confirmed_delays_a_copy_but_does_not_prevent_it() -> None:
    world = World(2, copy_timeout_s=30.0)
    world.write("/a", 10, 2)
    world.names.block_event(1.0, "n2", "corrupt", "blk_0000000001", 0)
    assert [c["type"] for c in world.names.heartbeat(2.0, "n2")] == ["delete_block"]
    assert world.names.heartbeat(31.0, "n1") == []
    assert world.names.heartbeat(32.0, "n1") == [
        {"type": "replicate", "block": "blk_0000000001", "to": ["n2"]}
    ]


def test_a_copy_not_yet_begun_is_forgotten_when_the_lost_replicas_come_back() -> None:
    world = World(4)
    nodes = world.write("/a", 10, 3, writer="n1")["nodes"]
    world.kill(nodes[1])
    world.kill(nodes[2])
    assert (
        world.names.heartbeat(1.0, world.alive[-1 if world.alive[0] == "n1" else 0]) == []
    )  # planned, not sent
    world.revive(nodes[1])
    world.revive(nodes[2])
    assert world.names.heartbeat(2.0, "n1") == []
