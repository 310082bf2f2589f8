"""The replication schemes Scarlett and CDRM: their formulas checked by hand, and the NameNode's copies."""

from __future__ import annotations

import pytest

from schedbed.cluster.blocks.replica_schemes import (
    NodeChoice,
    ReadFile,
    cdrm_replicas,
    erlang_b,
    scarlett_replicas,
)
from schedbed.cluster.spec import DynamicReplicas
from tests.harness.block_store import World

SCARLETT = DynamicReplicas(scheme="scarlett", epoch_s=10.0, delta=1, budget=4.0)
CDRM = DynamicReplicas(scheme="cdrm", epoch_s=10.0, availability=0.99, failure=0.1)


def test_scarletts_budget_is_spent_in_turns_by_hand() -> None:
    """With enough budget, equation 8 asks for 5 + 1 = 6 replicas of a, 2 + 1 = 3 of b, and 1 of c (not read).

    A budget of 200 bytes pays 80 (a) and 40 (b) in the first turn and 80 (a) in the second. No byte is left
    for another replica of b.
    """
    files = {"a": ReadFile(8, 80, 1), "b": ReadFile(4, 40, 1), "c": ReadFile(2, 20, 1)}
    read = {"a": 5, "b": 2, "c": 0}
    assert scarlett_replicas(files, read, delta=1, budget_bytes=200, most=9) == {"a": 3, "b": 2, "c": 1}
    assert scarlett_replicas(files, read, delta=1, budget_bytes=1e9, most=9) == {"a": 6, "b": 3, "c": 1}
    assert scarlett_replicas(files, read, delta=1, budget_bytes=1e9, most=4) == {"a": 4, "b": 3, "c": 1}


@pytest.mark.parametrize(
    ("blocks", "base", "most", "replicas"), [(8, 1, 9, 3), (20, 1, 9, 4), (20, 1, 3, 3), (1, 5, 9, 5)]
)
def test_the_replicas_of_cdrm_by_hand(blocks: int, base: int, most: int, replicas: int) -> None:
    """The fewest replicas that keep a file of 8 or 20 blocks available with a probability of 0.99.

    0.999^8 = 0.992 and 0.9999^20 = 0.998 are enough; 0.99^8 = 0.923 and 0.999^20 = 0.980 are not.
    """
    file = ReadFile(blocks, 100, base)
    assert cdrm_replicas(file, failure=0.1, availability=0.99, most=most) == replicas


@pytest.mark.parametrize(
    ("load", "servers", "blocked"),
    [(1.0, 1, 1 / 2), (2.0, 2, 2 / 5), (3.0, 3, 4.5 / 13), (0.0, 2, 0.0), (1.0, 0, 1.0)],
)
def test_erlang_b_by_hand(load: float, servers: int, blocked: float) -> None:
    """The probability that 3 requests for 3 slots find none: (27/6) / (1 + 3 + 9/2 + 27/6) = 4.5 / 13.

    A formula without the factorials would return 9 / 13.
    """
    assert erlang_b(load, servers) == pytest.approx(blocked)


def test_a_node_with_more_slots_is_better_under_the_same_load() -> None:
    cdrm = NodeChoice("cdrm", {"n1": 1.0, "n2": 1.0}, {"n1": 1, "n2": 2})
    assert cdrm.rank("n1") == pytest.approx(1 / 2) and cdrm.rank("n2") == pytest.approx(1 / 5)
    cdrm.placed("n2", 2.0)
    assert cdrm.rank("n2") == pytest.approx(4.5 / 8.5)  # 3 requests for 2 slots


def a_world(blocks: int = 2) -> tuple[World, list[str]]:
    """Return five nodes and the ids of the blocks, 10 bytes each, of the file /in/a, all on n1."""
    world = World(5)
    plan = world.upload("/in/a", [10] * blocks, 1, preferred=[["n1"]] * blocks)
    return world, [block["block"] for block in plan]


def end_epoch(world: World, readers: int, scheme: DynamicReplicas, **served: float) -> None:
    """Let an epoch pass in which `readers` jobs read /in/a.

    `served` is a dictionary from node, each with one slot, to the number of requests that the node serves.
    """
    serving = {node: (requests, 1) for node, requests in served.items()}
    world.names.note_reads(world.now_s, {"/in/a": readers} if readers else {}, serving, scheme)
    world.now_s += scheme.epoch_s
    world.names.note_reads(world.now_s, {}, serving, scheme)
    world.settle()


def test_scarlett_adds_replicas_on_the_least_loaded_nodes_and_takes_them_away() -> None:
    """Two readers make 3 replicas of both blocks, with one on each of the four other nodes.

    After an epoch without readers, these replicas are deleted.
    """
    world, blocks = a_world()
    end_epoch(world, 2, SCARLETT)
    known = world.known("/in/a")
    assert [len(known[block]) for block in blocks] == [3, 3]
    assert sorted(node for block in blocks for node in known[block][1:]) == ["n2", "n3", "n4", "n5"]
    end_epoch(world, 0, SCARLETT)
    assert [len(world.known("/in/a")[block]) for block in blocks] == [1, 1]
    world.names.close(world.now_s)
    added = [row["cause"] for row in world.names.poll()["rows"] if row["cause"] != "input"]
    assert added == ["scarlett"] * 4


def test_cdrm_adds_replicas_on_the_nodes_least_likely_to_be_busy() -> None:
    """Both blocks have 3 replicas, since 0.99^2 = 0.980 is not enough. New ones are on the idle n4 and n5."""
    world, blocks = a_world()
    end_epoch(world, 0, CDRM, n1=1.0, n2=2.0, n3=2.0, n4=0.0, n5=0.0)
    assert {block: sorted(nodes) for block, nodes in world.known("/in/a").items()} == {
        block: ["n1", "n4", "n5"] for block in blocks
    }


def test_a_lost_replica_is_repaired_as_such() -> None:
    world, blocks = a_world(1)
    end_epoch(world, 1, SCARLETT)
    assert len(world.known("/in/a")[blocks[0]]) == 2
    lost = next(node for node in world.known("/in/a")[blocks[0]] if node != "n1")
    world.names.node_lost(world.now_s, lost)
    world.settle()
    assert len(world.known("/in/a")[blocks[0]]) == 2
