"""The locality wait of YARN's CapacityScheduler, offer by offer, on four nodes of which n3 is alone in its rack."""

from __future__ import annotations

from typing import Any

from tests.harness.world import job
from tests.scheduler.locality.test_offers import Offered


def preset(**settings: Any) -> dict[str, Any]:
    return {"yarn-capacity": {"minimum_allocation": "1GiB", **settings}}


def test_a_map_in_the_rack_waits_for_one_more_than_the_delay_and_at_most_one_offer_for_each_node() -> None:
    """The delay of 40 is limited to 4, the number of nodes, so the fifth offer starts a map; with 1, the second."""
    assert Offered(preset(), job("a", ["n4"] * 20)).heartbeats(*["n1"] * 5) == [""] * 4 + ["a rack-local"]
    offered = Offered(preset(node_locality_delay=1), job("a", ["n4"] * 20))
    assert offered.heartbeats("n1", "n1") == ["", "a rack-local"]


def test_a_launch_in_the_rack_begins_the_count_anew_unless_told_otherwise() -> None:
    """The heartbeat's next try is the first miss. Without the reset, a node is filled at once."""
    offered = Offered(preset(node_locality_delay=1), job("a", ["n4"] * 20))
    assert offered.heartbeats(*["n1"] * 3) == ["", "a rack-local", "a rack-local"]
    offered = Offered(preset(node_locality_delay=1, rack_locality_full_reset=False), job("a", ["n4"] * 20))
    assert offered.heartbeats("n1", "n1") == ["", " ".join(["a rack-local"] * 4)]


def test_off_rack_waits_for_as_many_offers_as_maps_are_asked_for_where_their_data_is() -> None:
    """Two maps with data on one host in one rack: 2 x min((1 + 1) / 4, 1) = 1 offer is missed, the second starts one.

    It ends the heartbeat's turn. Then one map is left: 0.5 offers, so the next offer starts it.
    """
    offered = Offered(preset(), job("a", ["n4"] * 2))
    assert offered.heartbeats(*["n3"] * 3) == ["", "a off-rack", "a off-rack"]


def test_an_additional_delay_counts_after_that_for_the_node() -> None:
    offered = Offered(preset(node_locality_delay=1, rack_locality_additional_delay=2), job("a", ["n4"] * 20))
    assert offered.heartbeats(*["n3"] * 4) == ["", "", "", "a off-rack"]


def test_a_full_node_makes_no_offer() -> None:
    """a fills n1, one container a heartbeat, while b, which has data elsewhere, is tried behind it four times."""
    offered = Offered(preset(node_locality_delay=9), job("a", 4, queue="a"), job("b", ["n3"] * 9, queue="b"))
    beats = offered.heartbeats(*["n1"] * 9)
    assert beats.count("a no preferred node") == 4
    assert not any("b" in each for each in beats)


def test_a_launch_near_the_data_begins_the_count_anew() -> None:
    """n2 misses twice, then n1 has a map of its own; its second try, and one of n2, are misses again."""
    offered = Offered(preset(node_locality_delay=3), job("a", ["n1"] + ["n4"] * 20))
    assert offered.heartbeats("n2", "n2", "n1", "n2", "n2", "n2") == [
        "",
        "",
        "a node-local",
        "",
        "",
        "a rack-local",
    ]
