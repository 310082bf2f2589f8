"""The calls of the NameNode, as TaskTrackers, attempts, the driver and the JobTracker use them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from schedbed.cluster.blocks.block_errors import BadPath, NoNodes, PathExists, PathNotFound
from schedbed.cluster.blocks.namenode import NameNode
from tests.harness.block_store import World

B1, B2 = "blk_0000000001", "blk_0000000002"


def rows(world: World) -> list[dict[str, Any]]:
    return world.names.poll(0)["rows"]


# -- writing and reading -------------------------------------------------------------------------------------


def test_locate_gives_the_blocks_that_overlap_a_range() -> None:
    world = World(3)
    world.upload("/in/a", [10, 10, 5], 1)

    def offsets(*args: int) -> list[int]:
        return [block["offset"] for block in world.names.locate("/in/a", *args)]

    assert offsets() == [0, 10, 20]
    assert offsets(9, 2) == [0, 10]
    assert offsets(10, 10) == [10]
    assert offsets(24, 100) == [20]
    assert offsets(25, 1) == []


def test_empty_blocks_are_located_with_the_file_and_unwritten_ones_are_not() -> None:
    world = World(3)
    world.upload("/in/a", [0, 10, 0], 1)
    assert [(b["offset"], b["length"]) for b in world.names.locate("/in/a")] == [(0, 0), (0, 10), (10, 0)]
    world.names.allocate(1.0, "/b", "n1", 1, 10)
    assert world.names.locate("/b") == []


def test_a_file_that_nothing_was_written_to_is_empty_and_complete() -> None:
    world = World(1)
    world.names.complete(1.0, "/out/j/_temporary/a", [])
    world.names.rename(1.0, "/out/j/_temporary/a", "/out/j/part-00000")
    stat = world.names.stat("/out/j/part-00000")
    assert (stat["name"], stat["length"], stat["complete"]) == ("part-00000", 0, True)


def test_blocks_of_a_write_that_was_not_finished_are_not_copied() -> None:
    world = World(4)
    given = world.names.allocate(1.0, "/a", "n1", 3, 10)
    world.names.block_event(1.0, "n1", "added", given["block"], 10)
    world.settle()
    assert all(block not in disk for disk in world.disks.values() for block in [given["block"]])
    assert world.names.fsck()["blocks"] == 0


def test_an_abandoned_block_is_deleted_where_it_was_stored() -> None:
    world = World(3)
    first = world.names.allocate(1.0, "/a", "n1", 1, 10)
    world.disks["n1"][first["block"]] = 10
    world.names.block_event(1.0, "n1", "added", first["block"], 10)
    second = world.names.allocate(2.0, "/a", "n1", 1, 10, ["n1"])
    world.disks[second["nodes"][0]][second["block"]] = 10
    world.names.complete(3.0, "/a", [{**second, "length": 10}])
    world.settle()
    assert world.deleted == [("n1", first["block"])]


def test_a_repeated_complete_changes_nothing_even_if_the_nodes_changed_since() -> None:
    world = World(2)
    given = world.write("/a", 10, 2)
    world.kill("n2")
    world.disks["n2"].clear()
    world.revive("n2")
    world.names.complete(9.0, "/a", [{**given, "length": 10}])
    assert world.known("/a") == {B1: ["n1"]}


def test_a_broken_pipeline_is_made_good_afterwards() -> None:
    world = World(5)
    given = world.names.allocate(1.0, "/a", "n1", 3, 10)
    world.disks["n1"][given["block"]] = 10
    world.names.complete(2.0, "/a", [{"block": given["block"], "length": 10, "nodes": ["n1"]}])
    assert world.names.fsck()["under_replicated"] == [given["block"]]
    world.settle()
    assert len(world.good(given["block"])) == 3


def test_without_nodes_nothing_can_be_written() -> None:
    names = NameNode()
    with pytest.raises(NoNodes):
        names.allocate(0.0, "/a", None, 3)
    with pytest.raises(NoNodes):
        names.plan_input(0.0, "/in/a", [1], 1)
    assert names.list("/") == []


def test_a_replica_of_the_wrong_length_is_corrupt() -> None:
    world = World(3)
    world.write("/a", 10, 2, writer="n1")
    world.names.block_event(1.0, "n1", "added", B1, 9)
    assert "n1" not in world.known("/a")[B1]
    assert world.names.fsck()["corrupt"] == [B1]


# -- inputs --------------------------------------------------------------------------------------------------


def test_even_input_gives_each_node_the_same_number_of_blocks() -> None:
    world = World(6, racks=2)
    for number in range(4):
        world.upload(f"/in/{number}", [10] * 7, 3, placement="even")
    assert set(Counter(len(disk) for disk in world.disks.values())) == {14}


def test_skewed_input_is_on_the_first_nodes_only_and_replication_is_capped() -> None:
    world = World(10)
    world.upload("/in/a", [10] * 8, 3, placement="skewed", skew=0.2)
    assert {node for node, disk in world.disks.items() if disk} == {"n1", "n2"}
    assert world.names.stat("/in/a")["replication"] == 2
    assert world.names.fsck()["under_replicated"] == []


def test_input_goes_to_the_hosts_that_a_trace_prefers() -> None:
    world = World(6)
    plan = world.upload("/in/a", [10, 10], 2, preferred=[["n5", "n2"], []])
    assert plan[0]["nodes"] == ["n5", "n2"]
    assert len(plan[1]["nodes"]) == 2
    assert [planned["offset"] for planned in plan] == [0, 10]


def test_an_unknown_placement_is_refused() -> None:
    with pytest.raises(BadPath, match="hdfs, even, skewed"):
        World(1).names.plan_input(0.0, "/in/a", [1], 1, placement="odd")


def test_an_upload_that_broke_off_can_be_begun_anew() -> None:
    world = World(3)
    world.names.plan_input(0.0, "/in/a", [10, 10], 2)
    world.upload("/in/a", [10, 10], 2)
    assert list(world.known("/in/a")) == ["blk_0000000003", "blk_0000000004"]
    with pytest.raises(PathExists):
        world.names.plan_input(0.0, "/in/a", [10], 2)


def test_the_same_seed_plans_the_same() -> None:
    plans = [World(8, racks=2, seed=s).upload("/in/a", [10] * 9, 3) for s in (7, 7, 8)]
    assert plans[0] == plans[1] != plans[2]


def test_changes_of_input_replicas_are_told_once() -> None:
    world = World(4)
    world.upload("/in/a", [10], 2, preferred=[["n1", "n2"]])
    assert world.names.take_replica_changes() == [(B1, ["n1", "n2"])]
    assert world.names.take_replica_changes() == []
    world.write("/out/b", 10, 2, writer="n1")
    world.kill("n2")
    assert world.names.take_replica_changes() == [(B1, ["n1"])]
    world.settle()
    told = world.names.take_replica_changes()
    assert [block for block, _ in told] == [B1]
    assert sorted(told[0][1]) == world.known("/in/a")[B1]


# -- nodes ---------------------------------------------------------------------------------------------------


def test_a_node_that_is_not_known_is_asked_for_its_blocks() -> None:
    world = World(2)
    world.names.node_lost(1.0, "n2")
    assert world.names.heartbeat(2.0, "n2") == [{"type": "report_blocks"}]


def test_blocks_that_nobody_knows_are_deleted() -> None:
    world = World(2)
    world.kill("n2")
    world.disks["n2"]["blk_9999999999"] = 5
    world.revive("n2")
    world.settle()
    assert world.deleted == [("n2", "blk_9999999999")]


def test_blocks_of_a_deleted_file_are_deleted_on_all_nodes_even_on_one_that_was_away() -> None:
    world = World(3)
    world.upload("/in/a", [10, 10], 3)
    world.kill("n3")
    world.names.delete(1.0, "/in", recursive=True)
    world.revive("n3")
    world.settle()
    assert world.disks == {"n1": {}, "n2": {}, "n3": {}}
    assert world.names.delete(2.0, "/in") is False


def test_a_block_report_replaces_what_was_known() -> None:
    world = World(3)
    world.upload("/in/a", [10, 10], 3)
    world.disks["n1"].pop(B1)
    world.register("n1")
    assert world.known("/in/a") == {B1: ["n2", "n3"], B2: ["n1", "n2", "n3"]}


# -- journal and rows ----------------------------------------------------------------------------------------


def test_a_restart_keeps_the_namespace_and_orders_nothing_before_nodes_had_time_to_report(
    tmp_path: Path,
) -> None:
    world = World(4, journal=tmp_path / "journal", settle_s=5.0)
    world.upload("/in/a", [10, 10, 5], 3)
    world.write("/out/j/_temporary/x", 7, 2)
    world.names.rename(1.0, "/out/j/_temporary/x", "/out/j/part-00000")
    listing = world.names.list("/out/j"), world.names.list("/in"), world.known("/in/a")
    world.restart_name_node()
    world.names.rename(2.0, "/out/j/_temporary/x", "/out/j/part-00000")
    assert len(world.names.fsck()["missing"]) == 4
    world.now_s = 100.0
    assert [command for node in world.alive for command in world.heartbeat(node)] == [
        {"type": "report_blocks"}
    ] * 4
    assert (world.names.list("/out/j"), world.names.list("/in"), world.known("/in/a")) == listing
    world.settle()
    assert world.deleted == []
    assert world.names.allocate(200.0, "/b", None, 1)["block"] == "blk_0000000005"


def test_after_a_restart_copies_wait_until_all_nodes_may_have_reported(tmp_path: Path) -> None:
    world = World(3, journal=tmp_path / "journal", settle_s=5.0)
    world.write("/a", 10, 2, writer="n1")
    world.restart_name_node()
    world.now_s = 50.0
    world.register("n1")
    world.register("n3" if world.disks["n2"] else "n2")
    assert world.names.heartbeat(54.9, "n1") == []
    assert [command["type"] for command in world.names.heartbeat(55.0, "n1")] == ["replicate"]


def test_a_restarted_name_node_is_settling_until_all_nodes_reported_or_had_the_time(tmp_path: Path) -> None:
    world = World(3, journal=tmp_path / "journal", settle_s=5.0)
    assert not world.names.settling(0.0)
    world.upload("/in/a", [10], 2)
    world.restart_name_node()
    assert world.names.settling(1000.0)
    world.now_s = 50.0
    world.register("n1")
    world.register("n2")
    assert world.names.settling(54.9)
    assert not world.names.settling(55.0)
    world.register("n3")
    assert not world.names.settling(50.0)


def test_rows_tell_each_replicas_life_and_cause() -> None:
    world = World(4)
    world.now_s = 1.0
    world.upload("/in/a", [10], 2, preferred=[["n1", "n2"]])
    world.now_s = 2.0
    world.write("/out/b", 7, 2, writer="n3")
    world.now_s = 3.0
    world.kill("n2")
    world.settle()
    world.names.delete(500.0, "/in/a")
    world.names.close(600.0)
    world.names.close(600.0)
    lives = {(row["file"], row["node"]): row for row in rows(world)}
    lost = lives["/in/a", "n2"]
    assert lost == {
        "block": B1,
        "file": "/in/a",
        "node": "n2",
        "bytes": 10,
        "added": 1.0,
        "removed": 3.0,
        "cause": "input",
    }
    assert lives["/in/a", "n1"]["removed"] == 500.0
    causes = Counter((row["file"], row["cause"], row["removed"]) for row in rows(world))
    repaired = 2 if "n2" in [n for f, n in lives if f == "/out/b"] else 1
    assert causes["/in/a", "repair", 500.0] == 1
    assert causes["/out/b", "write", None] == 1
    assert causes["/out/b", "pipeline", None] + causes["/out/b", "pipeline", 3.0] == 1
    assert len(rows(world)) == 4 + repaired


def test_poll_goes_on_from_its_cursor() -> None:
    world = World(3)
    world.write("/a", 10, 3)
    world.kill("n1")
    first = world.names.poll(0)
    assert [row["node"] for row in first["rows"]] == ["n1"]
    assert world.names.poll(first["cursor"]) == {"cursor": first["cursor"], "rows": []}
    world.kill("n2")
    assert [row["node"] for row in world.names.poll(first["cursor"])["rows"]] == ["n2"]


def test_lives_and_rows_survive_a_restart(tmp_path: Path) -> None:
    world = World(3, journal=tmp_path / "journal")
    world.now_s = 1.0
    world.write("/a", 10, 3)
    world.kill("n1")
    world.restart_name_node()
    world.now_s = 9.0
    world.register("n2")
    world.names.node_lost(10.0, "n3")  # never came back
    world.names.close(11.0)
    told = {row["node"]: (row["added"], row["removed"]) for row in rows(world)}
    assert told == {"n1": (1.0, 1.0), "n2": (1.0, None), "n3": (1.0, 10.0)}


# -- the rest ------------------------------------------------------------------------------------------------


def test_content_summary_counts_what_is_below() -> None:
    world = World(3)
    world.upload("/in/a", [10, 5], 3)
    world.write("/in/sub/b", 7, 1)
    assert world.names.content_summary("/in") == {"length": 22, "files": 2, "directories": 2, "space": 52}


def test_listing_is_sorted_and_what_is_not_there_is_an_error() -> None:
    world = World(2)
    for name in ("b", "a", "c"):
        world.write(f"/d/{name}", 1, 1)
    assert [entry["name"] for entry in world.names.list("/d")] == ["a", "b", "c"]
    assert [entry["path"] for entry in world.names.list("/d/a")] == ["/d/a"]
    with pytest.raises(PathNotFound):
        world.names.list("/e")


def test_fsck_names_what_is_wrong() -> None:
    world = World(4)
    world.upload("/in/a", [10, 10, 10], 2, preferred=[["n1", "n2"], ["n3", "n4"], ["n2", "n3"]])
    world.kill("n3")
    world.names.block_event(1.0, "n4", "corrupt", B2, 0)
    assert world.names.fsck() == {
        "blocks": 3,
        "under_replicated": ["blk_0000000003"],
        "missing": [B2],
        "corrupt": [B2],
        "over_replicated": [],
    }


def test_answers_are_json() -> None:
    world = World(3)
    world.upload("/in/a", [10], 2)
    asked = [world.names.locate("/in/a"), world.names.nodes(), world.names.fsck(), world.names.stat("/in")]
    assert json.loads(json.dumps(asked)) == asked


def test_another_replication_is_reached_and_outlives_a_restart(tmp_path: Path) -> None:
    world = World(4, journal=tmp_path / "names.sqlite")
    world.upload("/in/a", [10, 10], 2)
    for wanted in (4, 1):
        world.names.set_replication(world.now_s, "/in/a", wanted)
        world.settle()
        assert [len(world.good(block)) for block in world.known("/in/a")] == [wanted] * 2
    world.names.set_replication(world.now_s, "/in/a", 3)
    world.restart_name_node()
    world.settle()
    assert [len(nodes) for nodes in world.known("/in/a").values()] == [3, 3]


def test_joined_files_and_attributes_outlive_a_restart(tmp_path: Path) -> None:
    world = World(2, journal=tmp_path / "names.sqlite")
    first, second = (world.write(path, 10, 2)["block"] for path in ("/a", "/b"))
    world.names.concat(5.0, "/a", ["/b"])
    world.names.set_attributes(6.0, "/a", {"owner": "ana", "modified_s": -3.5, "acl": ["user:bo:r--"]})
    world.restart_name_node()
    world.settle()
    assert list(world.known("/a")) == [first, second]
    status = world.names.stat("/a")
    assert [status[name] for name in ("owner", "modified_s", "acl")] == ["ana", -3.5, ["user:bo:r--"]]
    assert world.names.fsck()["blocks"] == 2 and world.names.delete(9.0, "/b") is False
