"""Replicas that stay on the node that fetched a block: they fit a budget, and required replicas stay."""

from __future__ import annotations

from pathlib import Path

from tests.harness.block_store import World


def a_world(blocks: int = 4, replication: int = 1, journal: Path | None = None) -> tuple[World, list[str]]:
    """Return five nodes and the ids of the blocks, 10 bytes each, of the file /in/a.

    All blocks are on n1, and on n2 as well with a `replication` of 2.
    """
    world = World(5, journal=journal)
    plan = world.upload("/in/a", [10] * blocks, replication, preferred=[["n1", "n2"][:replication]] * blocks)
    return world, [block["block"] for block in plan]


def fetched(world: World, node: str, block: str, budget: float = 0.5) -> bool:
    """Report that a map on `node` has fetched a block; return whether the replica is kept.

    `budget` limits the kept copies to a share of the total size of all input replicas.
    """
    keep = world.names.keeps(node, block, budget)["keep"]
    if keep:
        world.disks[node][block] = 10
        world.names.block_event(world.now_s, node, "kept", block, 10)
    return keep


def causes(world: World) -> dict[tuple[str, str], str]:
    world.names.close(world.now_s)
    return {(row["block"], row["node"]): row["cause"] for row in world.names.poll()["rows"]}


def test_a_copy_stays_beyond_the_replication_and_is_told_to_the_scheduler() -> None:
    world, blocks = a_world()
    world.names.take_replica_changes()
    assert fetched(world, "n4", blocks[0])
    assert world.names.take_replica_changes() == [(blocks[0], ["n1", "n4"])]
    world.settle()
    assert world.known("/in/a")[blocks[0]] == ["n1", "n4"] and world.deleted == []
    assert causes(world)[blocks[0], "n4"] == "dare"


def test_what_does_not_fit_the_budget_is_not_kept() -> None:
    """Two of four blocks are kept: a budget of half of four blocks of 10 bytes has room for two copies."""
    world, blocks = a_world()
    assert [fetched(world, "n3", block) for block in blocks] == [True, True, False, False]
    assert not fetched(world, "n4", blocks[1], budget=0.2)  # 8 bytes: no copy fits, whatever goes
    assert not fetched(world, "n1", blocks[0])  # holds it already
    assert not fetched(world, "n3", "blk_of_nobody")


def test_the_copy_of_the_block_that_was_read_least_goes() -> None:
    world, blocks = a_world()
    assert fetched(world, "n3", blocks[0]) and fetched(world, "n4", blocks[0])
    assert fetched(world, "n3", blocks[1], budget=0.75)
    assert not fetched(world, "n5", blocks[2], budget=0.75)  # read once, as the least of the three
    assert fetched(world, "n5", blocks[2], budget=0.75)  # the second time
    world.settle()
    assert world.deleted == [("n3", blocks[1])]
    assert world.known("/in/a") == {
        blocks[0]: ["n1", "n3", "n4"],
        blocks[1]: ["n1"],
        blocks[2]: ["n1", "n5"],
        blocks[3]: ["n1"],
    }


def test_a_copy_takes_the_place_of_a_lost_replica_and_leaves_the_budget() -> None:
    world, blocks = a_world(blocks=1, replication=2)
    assert fetched(world, "n4", blocks[0])  # 10 of 10 bytes
    world.kill("n1")
    world.settle()
    assert world.known("/in/a")[blocks[0]] == ["n2", "n4"]  # nothing is copied
    assert fetched(world, "n5", blocks[0])
    world.revive("n1")
    world.settle()
    assert len(world.known("/in/a")[blocks[0]]) == 3  # two that have to be there, and n5's
    assert "n5" in world.known("/in/a")[blocks[0]]


def test_one_of_two_copies_takes_the_place_of_a_lost_replica_and_leaves_the_budget() -> None:
    """When n1 is lost, the older of two kept copies becomes a regular replica.

    The budget of 20 bytes then has room for another copy.
    """
    world, blocks = a_world(blocks=1, replication=2)
    assert fetched(world, "n4", blocks[0], budget=1.0) and fetched(world, "n5", blocks[0], budget=1.0)
    assert not fetched(world, "n3", blocks[0], budget=1.0)
    world.kill("n1")
    assert fetched(world, "n3", blocks[0], budget=1.0)
    world.settle()
    assert world.known("/in/a")[blocks[0]] == ["n2", "n3", "n4", "n5"] and world.deleted == []


def test_a_name_node_that_has_restarted_knows_its_copies(tmp_path: Path) -> None:
    world, blocks = a_world(journal=tmp_path / "journal")
    assert fetched(world, "n4", blocks[0])
    world.restart_name_node()
    for node in world.alive:
        world.register(node)
    world.settle()
    assert world.known("/in/a")[blocks[0]] == ["n1", "n4"]


def test_copies_of_a_deleted_file_go_with_it() -> None:
    world, blocks = a_world()
    assert fetched(world, "n4", blocks[0])
    world.names.delete(world.now_s, "/in/a")
    world.settle()
    assert ("n4", blocks[0]) in world.deleted and not world.disks["n4"]
    assert not world.names.has_orders()
