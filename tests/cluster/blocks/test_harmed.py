"""Tests of faults at the NameNode: writers of lost attempts, and corrupt replicas."""

from __future__ import annotations

from pathlib import Path

import pytest

from schedbed.cluster.blocks.block_errors import PathNotFound
from tests.harness.block_store import World


def test_what_is_deleted_for_good_does_not_come_back_by_who_was_given_up(tmp_path: Path) -> None:
    """Permanently deleted files cannot be written again, even after a restart of the NameNode.

    This is true of one attempt's file, and of all attempts' files after the end of the job.
    """
    world = World(3, journal=tmp_path / "journal")
    world.names.allocate(1.0, "/out/j/_temporary/a", "n1", 1, 10)
    assert world.names.delete(1.0, "/out/j/_temporary/a", for_good=True)
    with pytest.raises(PathNotFound, match="_temporary/a: was deleted for good"):
        world.names.allocate(1.0, "/out/j/_temporary/a", "n1", 1, 10)
    world.names.allocate(1.0, "/out/j/_temporary/b", "n1", 1, 10)
    assert world.names.delete(2.0, "/out/j/_temporary", True, for_good=True)
    world.restart_name_node()
    for path in ("/out/j/_temporary/a", "/out/j/_temporary/c"):
        with pytest.raises(PathNotFound, match="_temporary: was deleted for good"):
            world.names.complete(3.0, path, [])
    assert not world.names.delete(3.0, "/out/k/_temporary", True, for_good=True)  # it never was
    with pytest.raises(PathNotFound):
        world.names.complete(3.0, "/out/k/_temporary/a", [])
    assert world.names.list("/out/j") == []


def test_a_replica_is_picked_for_a_fault_where_another_survives() -> None:
    world = World(4)
    world.upload("/in/a", [10, 10, 10], 2)
    world.upload("/in/b", [10], 1)
    held = {raw["block"]: raw["nodes"] for raw in world.names.locate("/in/a")}
    up = ["n1", "n2", "n3", "n4"]
    picked = {world.names.pick_replica(up, "", (), luck / 20) for luck in range(20)}
    assert picked == {(block, node) for block, nodes in held.items() for node in nodes}
    block, nodes = next(iter(held.items()))
    assert world.names.pick_replica(up, block, (nodes[1],), 0.9) == (block, nodes[1])
    assert world.names.pick_replica([nodes[1]], block, (), 0.0) == (block, nodes[1])  # asked for by name
    assert world.names.pick_replica([nodes[1]], "", (), 0.0) is None
    (lonely,) = world.names.locate("/in/b")
    assert world.names.pick_replica(up, "/in/b", (), 0.5) == (lonely["block"], lonely["nodes"][0])
    assert world.names.pick_replica(up, "/in/c", (), 0.5) is None


def test_a_replica_that_comes_back_with_another_length_is_not_sent_on() -> None:
    """A replica whose length has changed since the NameNode planned a copy of it is not copied.

    It is the last replica, so it is not deleted either.
    """
    world = World(3)
    (planned,) = world.upload("/in/a", [10], 2, preferred=[["n1", "n2"]])
    world.kill("n2")
    assert world.heartbeat("n3") == []  # plans a copy from n1
    world.disks["n1"][planned["block"]] = 7
    world.names.block_event(world.now_s, "n1", "added", planned["block"], 7)
    assert world.heartbeat("n1") == [] and world.disks["n3"] == {}
    world.revive("n2")
    world.settle()
    assert all(disk.get(planned["block"], 10) == 10 for disk in world.disks.values())
    assert len(world.known("/in/a")[planned["block"]]) == 2
