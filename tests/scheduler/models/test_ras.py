"""The equations of the policy RAS (polo2011) with numbers, and its resource profiles."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Any

import pytest

from schedbed.scheduler.models.ras_placement import ends_within, map_utility, reduce_utility, slots_required
from schedbed.scheduler.models.resource_profiles import (
    Amounts,
    ResourceProfile,
    declared_demands,
    read_profile,
)
from tests.harness.world import GIB, job, node


@pytest.mark.parametrize(
    ("allocated", "utility"),
    [
        (0, -inf),
        (1, -1.0),  # log 1 / log 20 - 1
        (10, -0.23137821315975918),  # log 10 / log 20 - 1 = 2.302585 / 2.995732 - 1
        (20, 0.0),  # (20 - 20) / (35 - 20)
        (26, 0.4),  # (26 - 20) / 15
        (35, 1.0),
        (40, 1.0),  # capped
    ],
)
def test_map_utility_of_figure_2(allocated: int, utility: float):
    """Figure 2 of polo2011: the utility of a job with 20 required slots and 35 pending maps, by allocated
    slots.
    """
    assert map_utility(allocated, 20, 35) == pytest.approx(utility)


@pytest.mark.parametrize(
    ("allocated", "required", "pending", "utility"),
    [
        (3, 5, 5, -0.31739380551401473),  # all pending maps are required: log 3 / log 5 - 1
        (5, 5, 5, 1.0),  # where equation 2 is 0 / 0
        (1, 1, 4, 0.0),  # (1 - 1) / (4 - 1); log 1 is never divided by
        (0, 1, 4, -inf),
        (0, 1, 0, 1.0),  # no map is left
    ],
)
def test_edges_of_map_utility(allocated: int, required: int, pending: int, utility: float):
    assert map_utility(allocated, required, pending) == pytest.approx(utility)


@pytest.mark.parametrize(
    ("allocated", "pending", "utility"),
    [
        (0, 10, -1.0),  # the end of the stated range
        (1, 10, -1.0),  # log 1 / log 10 - 1
        (5, 10, -0.3010299956639812),  # 0.69897 - 1
        (10, 10, 0.0),
        (0, 0, 0.0),
        (1, 1, 0.0),  # where equation 3 is 0 / 0
    ],
)
def test_reduce_utility(allocated: int, pending: int, utility: float):
    assert reduce_utility(allocated, pending) == pytest.approx(utility)


@pytest.mark.parametrize(
    ("pending", "work_s", "left_s", "slots"),
    [
        (100, 2000.0, 200.0, 10),  # 2000 / 200
        (100, 2001.0, 200.0, 11),  # rounded up
        (100, 90.0, 200.0, 1),  # at least one
        (5, 2000.0, 200.0, 5),  # at most the pending
        (5, 2000.0, 0.0, 5),  # the goal has passed
        (5, 2000.0, -3.0, 5),
        (5, 2000.0, None, 5),  # no goal: as early as possible
        (5, None, 200.0, 5),  # nothing is known of its maps
    ],
)
def test_slots_required(pending: int, work_s: float | None, left_s: float | None, slots: int):
    assert slots_required(pending, work_s, left_s) == slots


def test_when_the_map_phase_ends():
    """Maps with 30 s of work in all end within 10 s on 3 slots.

    With more work, unknown work or no slot they do not.
    """
    assert ends_within(30.0, 3, 10.0) and not ends_within(31.0, 3, 10.0)
    assert not ends_within(None, 3, 10.0) and not ends_within(30.0, 0, 10.0)


SORT: dict[str, Any] = {
    "map": {"cpu": 30, "io": 45, "memory": 25},
    "shuffle": {"io": 0.15},
    "reduce": {"cpu": 20, "io": 50, "memory": 60},
}


def test_profiles_of_table_2_hold_on_any_node():
    """A profile without a node holds its percentages on any node.

    A shuffle uses 0.15% of the I/O for each map, for at most four parallel copies.
    """
    demands = read_profile(SORT).on(node("n1"))
    assert demands.map == Amounts(30, 45, 25) and demands.reduce == Amounts(20, 50, 60)
    assert demands.shuffling(3) == pytest.approx(Amounts(0, 0.45, 0))
    assert demands.shuffling(9) == pytest.approx(Amounts(0, 0.60, 0))
    assert demands.shuffling(0) == Amounts()


def test_a_profile_of_one_node_on_another():
    """A profile from a node with 4 cores, 200 MB/s and 2 GiB is converted to one with 2 cores, 100 MB/s and 4
    GiB: twice the CPU, twice the I/O and half the memory in percent.
    """
    profile = read_profile(SORT | {"node": {"cpu": 4, "io": 2e8, "memory": 2 * GIB}})
    demands = profile.on(node("n1"))
    assert demands.map == Amounts(60, 90, 12.5)
    assert demands.reduce == Amounts(40, 100, 30)
    assert profile.on(node("n2", cores=1)).map.cpu == 100  # 120: it gets the node alone
    assert read_profile(profile.to_values()) == profile


def test_network_is_converted_if_the_profile_says_how_fast_it_was():
    """A demand of 5% of 1 Gbit/s is half of 100 Mbit/s. Percentages of unknown rates hold on any node."""
    known = {"map": {"network": 5}, "shuffle": {"network": 3}, "reduce": {"network": 20}}
    slow = replace(node("n1"), network_bps=12.5e6)
    assert read_profile(known).on(slow).map.network == 5
    capacity = {"cpu": 2, "io": 1e8, "memory": 4 * GIB}
    assert read_profile(known | {"node": capacity}).on(slow).map.network == 5
    demands = read_profile(known | {"node": {**capacity, "network": 125e6}}).on(slow)
    assert (demands.map.network, demands.reduce.network) == (50, 100)
    assert (
        demands.shuffling(2).network == 50
    )  # 30%, but at most a quarter of the network for each of four fetches


def test_without_a_profile_declarations_count():
    """Without a profile, a map demands the declared 1 of 2 vcores and 1 of 4 GiB.

    A shuffle demands only the memory of its reduce.
    """
    demands = declared_demands(job("a", 1, reduces=1, reduce_memory=2 * GIB), node("n1"))
    assert demands.map == Amounts(50, 0, 25) and demands.reduce == Amounts(50, 0, 50)
    assert demands.shuffling(9) == Amounts(0, 0, 50)


def test_durations_follow_the_scale():
    assert ResourceProfile(map_s=30.0).at_scale(0.1).map_s == pytest.approx(3.0)
    assert ResourceProfile().at_scale(0.1).map_s is None


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"maps": {}}, "'maps' is unknown, expected map, shuffle"),
        ({"map": 30}, "map: 30 is not a mapping of cpu, io, memory and network"),
        ({"map": {"disk": 30}}, "is not a mapping of cpu, io, memory and network"),
        ({"map": {"cpu": 101}}, "map: cpu: 101 is not from 0 to 100"),
        ({"reduce": {"io": -1}}, "reduce: io: -1 is not from 0 to 100"),
        ({"parallel_copies": 0}, "parallel_copies: 0 is not a whole number above 0"),
        ({"map_s": "long"}, "map_s: 'long' is not a number"),
        ({"node": {"cpu": 1, "io": 1}}, "node: cpu, io and memory must all be above 0"),
    ],
)
def test_wrong_profiles(values: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        read_profile(values)
