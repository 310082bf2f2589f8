"""Tests the assignment of nodes to the hosts of a Ray cluster, and its consequences."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedbed.cluster.clock import RunClock
from schedbed.cluster.host_clock import ClockReading
from schedbed.cluster.spec import BY_HOST, ClusterSpec, NodeSpec
from schedbed.deploy.live.hosts import (
    Host,
    HostRecord,
    check_links,
    deal_out,
    host_loads,
    hosts_of,
    racks_by_host,
)
from schedbed.deploy.options import RunOptions
from schedbed.deploy.scenario.resolve import resolve
from schedbed.tasks.errors import BadInput


def nodes(count: int, racks: int = 1, cores: int = 2) -> tuple[NodeSpec, ...]:
    return tuple(
        NodeSpec(
            node=f"n{number}",
            rack=f"r{(number - 1) % racks + 1}",
            cores=cores,
            core_speed=0.1,
            memory_bytes=2**29,
            disk_bps=4e7,
            network_bps=1e7,
            map_slots=2,
            reduce_slots=1,
        )
        for number in range(1, count + 1)
    )


def hosts(*cpus: float) -> tuple[Host, ...]:
    return tuple(
        Host(name=f"h{n}", ray_id=f"id{n}", address=f"10.0.0.{n}", cpus=c, drives=n == 1)
        for n, c in enumerate(cpus, start=1)
    )


def counts(count: int, *cpus: float, racks: int = 1) -> list[int]:
    dealt = deal_out(nodes(count, racks), hosts(*cpus))
    return [sum(host.name == f"h{n}" for host in dealt.values()) for n in range(1, len(cpus) + 1)]


def test_a_host_gets_nodes_in_proportion_to_its_cpus() -> None:
    assert counts(6, 2, 2, 2) == [2, 2, 2]
    assert counts(8, 4, 2, 2) == [4, 2, 2]
    assert counts(2, 8, 8, 8) == [1, 0, 1]
    assert counts(5, 0, 1) == [0, 5]


@given(count=st.integers(1, 60), cpus=st.lists(st.integers(0, 16), min_size=1, max_size=8).filter(any))
def test_no_host_is_more_than_a_node_away_from_its_share(count: int, cpus: list[int]) -> None:
    for found, own in zip(counts(count, *cpus), cpus, strict=True):
        assert abs(found - count * own / sum(cpus)) <= 1 + 1e-9


def test_large_nodes_count_for_more() -> None:
    large = replace(nodes(1, cores=6)[0], node="big")
    dealt = deal_out((large, *nodes(3)), hosts(1, 1))
    assert dealt["big"].name == "h1" and {dealt[f"n{i}"].name for i in (1, 2, 3)} == {"h2"}


def test_racks_stay_whole_where_the_shares_allow_it() -> None:
    dealt = deal_out(nodes(6, racks=3), hosts(2, 2, 2))
    assert dealt["n1"] == dealt["n4"] and dealt["n2"] == dealt["n5"] and dealt["n3"] == dealt["n6"]


def test_a_node_lies_on_the_host_that_it_names_and_counts_as_a_part_of_its_share() -> None:
    first, second, *others = nodes(4)
    for name in ("h2", "10.0.0.2"):
        named = (replace(first, host=name), replace(second, host=name), *others)
        dealt = deal_out(named, hosts(2, 2))
        assert [dealt[f"n{i}"].name for i in (1, 2, 3, 4)] == ["h2", "h2", "h1", "h1"]
        assert list(dealt) == ["n1", "n2", "n3", "n4"]
    everything = tuple(replace(node, host="h1") for node in nodes(3))
    assert {host.name for host in deal_out(everything, hosts(0, 2)).values()} == {"h1"}
    crowd = (*(replace(node, host="h2") for node in nodes(3)), replace(nodes(1)[0], node="n4"))
    assert deal_out(crowd, hosts(1, 1))["n4"].name == "h1"


def test_a_host_that_does_not_exist_is_refused_with_those_that_do() -> None:
    with pytest.raises(
        BadInput, match=r"^cluster.node.host: no host 'h9' in this run, expected one of h1, h2"
    ):
        deal_out((replace(nodes(1)[0], host="h9"),), hosts(1, 1))


def test_a_scenario_pins_all_nodes_or_a_group() -> None:
    cluster = {"nodes": [{"count": 2, "host": "left"}, {"count": 1}], "node": {"host": "right"}}
    given = resolve({"workload": {"jobs": [{"app": "pi"}]}, "cluster": cluster}).cluster
    assert [node.host for node in given.nodes] == ["left", "left", "right"]


def test_a_cluster_that_lends_no_cpu_is_refused() -> None:
    with pytest.raises(BadInput, match="--address: no host of the Ray cluster lends it a CPU"):
        deal_out(nodes(2), hosts(0, 0))


def raylet(number: int, name: str, **changes: Any) -> dict[str, Any]:
    alive: dict[str, Any] = {"Alive": True, "NodeID": f"id{number}", "NodeManagerAddress": f"10.0.0.{number}"}
    return alive | {"NodeManagerHostname": name, "Resources": {"CPU": 2.0}} | changes


def test_hosts_are_named_so_that_they_are_told_apart_and_the_dead_are_left_out() -> None:
    found = hosts_of(
        [
            raylet(1, "box"),
            raylet(2, "box", Resources={}),
            raylet(3, "other"),
            raylet(4, "gone", Alive=False),
        ],
        own_id="id3",
    )
    assert [(host.name, host.cpus, host.drives) for host in found] == [
        ("other", 2.0, True),
        ("box-10.0.0.1", 2.0, False),
        ("box-10.0.0.2", 0.0, False),
    ]


def test_racks_by_host_are_the_hosts_and_other_racks_stay() -> None:
    cluster = {"nodes": [{"count": 3}, {"rack": "own"}], "racks": "by-host"}
    given = resolve({"workload": {"jobs": [{"app": "pi"}]}, "cluster": cluster}).cluster
    assert [node.rack for node in given.nodes] == [BY_HOST] * 3 + ["own"]
    places = dict(zip(["n1", "n2", "n3", "n4"], hosts(1, 1, 1, 1), strict=True))
    assert [node.rack for node in racks_by_host(given, places).nodes] == ["h1", "h2", "h3", "own"]


def test_an_uplink_is_refused_when_its_rack_lies_on_several_hosts() -> None:
    whole, cut = nodes(4, racks=2), nodes(4)
    for each in (whole, cut):
        free = ClusterSpec(nodes=each)
        check_links(free, deal_out(each, hosts(1, 1)))
    held = ClusterSpec(nodes=whole, uplink_bps=1e6)
    check_links(held, deal_out(whole, hosts(1, 1)))
    for key in ("downlink", "core_switch"):
        held = ClusterSpec(nodes=cut, **{f"{key}_bps": 1e6})  # pyright: ignore[reportArgumentType]
        with pytest.raises(BadInput, match=rf"^cluster.{key}: the nodes lie on h1, h2 and .*{key}: none"):
            check_links(held, deal_out(cut, hosts(1, 1)))
    held = ClusterSpec(nodes=cut, uplink_bps=1e6)
    with pytest.raises(BadInput, match=r"^cluster.uplink: the nodes of rack r1 lie on h1, h2 and .*by-host"):
        check_links(held, deal_out(cut, hosts(1, 1)))


def test_a_host_says_where_it_is_and_how_far_off_its_clock_is() -> None:
    own, other = (HostRecord(host) for host in hosts(1, 1))
    clock = ClockReading(at_s=100.0, offset_s=0.5, bound_s=0.1)
    other.take({"folder": "/tmp/x", "owner": "7.8", "host": {"cores": 8}}, clock)
    assert other.folder == Path("/tmp/x")
    places = deal_out(nodes(2), hosts(1, 1))
    facts = other.facts(places)
    measured = {"clock_offset_s": 0.5, "clock_bound_s": 0.1, "core_speed_ratio": 1.0}
    assert facts == {"address": "10.0.0.2", "cores": 8, "ray_cpus": 1, **measured, "nodes": ["n2"]}
    other.hear([[1.0, 0.5]], 2.0, [ClockReading(at_s=101.5, offset_s=0.5, bound_s=0.001)])
    other.hear(None, 3.0)
    other.hear(None, 6.0)
    clock = RunClock(100.0, stretch=2.0)
    assert host_loads([own, other], [[1.0, 0.1]], clock) == {
        "h1": {"samples": [[1.0, 0.1]], "lost_s": None},
        "h2": {"samples": [[0.75, 0.5]], "lost_s": 3.0, "clock": [[0.5, 0.5, 0.001]]},
    }


def test_a_host_that_answers_again_was_not_lost() -> None:
    record = HostRecord(hosts(1)[0])
    record.hear(None, 3.0)
    record.hear([[4.0, 0.5]], 6.0)
    assert record.lost_s is None and record.samples == [[4.0, 0.5]]


def test_simulations_on_hosts_have_no_connections_for_tls() -> None:
    assert RunOptions(machines="sim", address="auto").is_in_clear
    with pytest.raises(BadInput, match=r"^--tls: a simulation sends nothing but Ray's own calls"):
        RunOptions(machines="sim", address="auto", tls=True)
