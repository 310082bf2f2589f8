"""The placement of replicas on any cluster."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedbed.cluster.blocks.live_nodes import NodeIndex
from schedbed.cluster.blocks.placement import (
    CandidateNode,
    hot_nodes,
    place_even,
    place_file,
    place_hdfs,
    place_preferred,
    surplus,
)


def cluster(nodes: int, racks: int, load_bytes: int = 0) -> list[CandidateNode]:
    return [CandidateNode(f"n{i}", f"r{i % racks}", load_bytes) for i in range(nodes)]


clusters = st.builds(cluster, st.integers(1, 20), st.integers(1, 5))
counts = st.integers(1, 5)
seeds = st.integers(0, 10_000)


@given(clusters, counts, seeds, st.sampled_from(["n0", "n7", "a client"]))
def test_hdfs_placement_keeps_its_rules_on_any_cluster(
    nodes: list[CandidateNode], count: int, seed: int, writer: str
) -> None:
    chosen = place_hdfs(nodes, count, seed=seed, block="b", writer=writer)
    rack = {c.node: c.rack for c in nodes}
    assert len(chosen) == len(set(chosen)) == min(count, len(nodes))
    if writer in rack:
        assert chosen[0] == writer
    if len(chosen) >= 2 and len(set(rack.values())) > 1:
        assert rack[chosen[1]] != rack[chosen[0]]
    if len(chosen) >= 3 and len(set(rack.values())) > 1 and list(rack.values()).count(rack[chosen[1]]) > 1:
        assert rack[chosen[2]] == rack[chosen[1]]


@given(clusters, counts, seeds)
def test_the_same_seed_and_block_give_the_same_nodes_in_whatever_order_they_come(
    nodes: list[CandidateNode], count: int, seed: int
) -> None:
    backwards = list(reversed(nodes))
    assert place_hdfs(nodes, count, seed=seed, block="b") == place_hdfs(
        backwards, count, seed=seed, block="b"
    )


def test_without_a_writer_every_node_gets_first_replicas() -> None:
    first = Counter(place_hdfs(cluster(6, 2), 3, seed=1, block=f"b{i}")[0] for i in range(600))
    assert len(first) == 6
    assert min(first.values()) > 60


def test_a_replica_for_a_block_that_lives_on_one_rack_goes_to_another() -> None:
    nodes = cluster(6, 2)
    both = [nodes[0], nodes[2]]  # both r0
    for seed in range(20):
        assert place_hdfs(nodes, 1, seed=seed, block="b", existing=both)[0] in ("n1", "n3", "n5")


def test_a_node_with_more_than_twice_the_average_load_comes_last() -> None:
    nodes = [CandidateNode("full", "r", 900), CandidateNode("a", "r", 100), CandidateNode("b", "r", 100)]
    assert place_hdfs(nodes, 3, seed=5, block="b")[2] == "full"


@given(clusters, counts, seeds, st.lists(st.integers(0, 90), max_size=30), st.integers(0, 2000))
def test_each_block_of_a_file_is_placed_by_the_rules_at_the_loads_of_its_time(
    nodes: list[CandidateNode], count: int, seed: int, lengths: list[int], first_bytes: int
) -> None:
    field = NodeIndex([CandidateNode(nodes[0].node, nodes[0].rack, first_bytes), *nodes[1:]])
    loads = dict(field.load_bytes)
    rack, many = field.racks, len(field.by_rack) > 1
    placed = place_file(field, count, [f"b{i}" for i in range(len(lengths))], lengths, seed=seed)
    for chosen, length in zip(placed, lengths, strict=True):
        light = [node for node in loads if loads[node] <= 2 * sum(loads.values()) / len(loads)]
        assert len(chosen) == len(set(chosen)) == min(count, len(nodes))
        assert chosen[0] in light
        if len(chosen) >= 2 and many:
            assert rack[chosen[1]] != rack[chosen[0]]
            others = [node for node in light if rack[node] != rack[chosen[0]]]
            assert chosen[1] in (others or chosen)
        if len(chosen) >= 3 and many and len(field.by_rack[rack[chosen[1]]]) > 1:
            assert rack[chosen[2]] == rack[chosen[1]]
        for node in chosen:
            loads[node] += length
    assert field.load_bytes == loads and field.total_bytes == sum(loads.values())


def test_blocks_of_a_file_are_spread_evenly() -> None:
    field = NodeIndex(cluster(30, 5))
    blocks = [f"b{i}" for i in range(3000)]
    placed = place_file(field, 3, blocks, [1] * 3000, seed=4)
    for turn in range(3):  # 100 each, +- 5 standard deviations
        assert all(50 < count < 150 for count in Counter(chosen[turn] for chosen in placed).values())


@given(st.integers(1, 20), st.integers(1, 5), st.integers(1, 40), st.integers(1, 5), st.integers(0, 99))
def test_even_spreads_a_file_with_at_most_one_block_of_difference(
    size: int, racks: int, blocks: int, replication: int, seed: int
) -> None:
    held = {f"n{i}": 0 for i in range(size)}
    for index in range(blocks):
        nodes = cluster(size, racks)
        chosen = place_even(nodes, replication, seed=seed, block=f"b{index}", file_blocks=held)
        assert len(set(chosen)) == min(replication, size)
        for node in chosen:
            held[node] += 1
    assert max(held.values()) - min(held.values()) <= 1


def test_even_gives_the_remainder_of_a_file_to_the_emptiest_nodes() -> None:
    nodes = [CandidateNode("a", "r", 500), CandidateNode("b", "r", 100), CandidateNode("c", "r", 300)]
    assert place_even(nodes, 2, seed=1, block="b", file_blocks={}) == ["b", "c"]


@pytest.mark.parametrize(
    ("size", "share", "count"),
    [(10, 0.2, 2), (5, 0.2, 1), (6, 0.2, 2), (20, 0.15, 3), (3, 0.01, 1), (4, 1.0, 4), (100, 0.07, 7)],
)
def test_hot_nodes_are_the_first_share_rounded_up(size: int, share: float, count: int) -> None:
    order = [f"n{i}" for i in range(size)]
    assert hot_nodes(order, share) == order[:count]


def test_hosts_of_a_trace_come_first_as_far_as_they_live() -> None:
    chosen = place_preferred(cluster(6, 2), 3, seed=1, block="b", preferred=["gone", "n4", "n4", "n1"])
    assert chosen[:2] == ["n4", "n1"]
    assert len(set(chosen)) == 3
    assert place_preferred(cluster(6, 2), 1, seed=1, block="b", preferred=["n4", "n1"]) == ["n4"]


def test_surplus_goes_from_the_rack_with_most_and_there_from_the_fullest_node() -> None:
    holders = [
        CandidateNode("a", "r1", 10),
        CandidateNode("b", "r1", 30),
        CandidateNode("c", "r2", 99),
        CandidateNode("d", "r1", 20),
    ]
    assert surplus(holders, 2) == ["b", "d"]
    assert surplus(holders, 4) == []


@given(clusters, st.integers(1, 5))
def test_trimming_leaves_the_target_and_as_many_racks_as_it_can(
    nodes: list[CandidateNode], target: int
) -> None:
    dropped = surplus(nodes, target)
    staying = [c for c in nodes if c.node not in dropped]
    assert len(staying) == min(target, len(nodes))
    assert len({c.rack for c in staying}) == min(len(staying), len({c.rack for c in nodes}))


def test_an_index_without_some_nodes_is_the_index_of_the_others() -> None:
    nodes = [CandidateNode(each.node, each.rack, 10 * number) for number, each in enumerate(cluster(30, 5))]
    chosen = [nodes[number] for number in (17, 3, 29, 4, 8)]
    index = NodeIndex(nodes)
    with index.without(each.node for each in nodes if each not in chosen):
        assert vars(index) == vars(NodeIndex(chosen))
    assert vars(index) == vars(NodeIndex(nodes))
    with index.without(["unknown", chosen[0].node, chosen[0].node]):
        assert vars(index) == vars(NodeIndex(each for each in nodes if each != chosen[0]))
    assert vars(index) == vars(NodeIndex(nodes))
