"""Links between racks: rates computed by hand, and properties of any flows between any racks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedbed.cluster.spec import LinkRates
from schedbed.cluster.virtual.agenda import Item
from schedbed.cluster.virtual.fluid.fluid import FluidEmulation
from schedbed.cluster.virtual.fluid.max_min import Flow, Resource
from schedbed.cluster.virtual.latencies import NO_LATENCIES
from tests.harness.simulation import MB, Blocks, map_plan, node, reports, run


def racked(racks: str, links: LinkRates, store: Blocks | None = None) -> FluidEmulation:
    """Return an emulation of nodes n0, n1, ...; `racks` names the rack of each node, separated by spaces."""
    emulation = FluidEmulation(store or Blocks(), NO_LATENCIES, links)
    for number, rack in enumerate(racks.split()):
        emulation.node_up(0.0, node(f"n{number}", rack=rack))
    return emulation


def ends(emulation: FluidEmulation) -> dict[str, float]:
    return {name[6:9]: report.end_s for name, report in reports(run(emulation)).items()}


def test_senders_of_two_racks_share_the_downlink_of_a_third() -> None:
    """Two reads share a downlink of 20 MB/s: 60 MB take 6 s, and the last 40 MB of the other come at 20 MB/s.

    A read within a rack has 50 MB/s.
    """
    store = Blocks({"a": ["n0"], "b": ["n1"], "c": ["n4"]})
    emulation = racked("r0 r1 r2 r2 r3 r3", LinkRates(down_bps=20.0 * MB), store)
    for index, (name, block, size) in enumerate((("n2", "a", 60), ("n3", "b", 100), ("n5", "c", 100))):
        emulation.launch(0.0, name, map_plan(index, [(block, size * MB)]))
    assert ends(emulation) == pytest.approx({"m_0": 6.0, "m_1": 8.0, "m_2": 2.0})


def test_uplink_core_and_downlink_bind_together() -> None:
    """Three flows into r1 have 12 MB/s each, since the downlink has 36 MB/s.

    The flow from r1 to r2 has the 24 MB/s that are left of the core switch.
    """
    store = Blocks({"a": ["n0"], "b": ["n1"], "c": ["n4"], "d": ["n2"]})
    links = LinkRates(up_bps=30.0 * MB, down_bps=36.0 * MB, core_bps=60.0 * MB)
    emulation = racked("r0 r0 r1 r1 r2", links, store)
    for index, (name, block) in enumerate((("n2", "a"), ("n3", "b"), ("n2", "c"), ("n4", "d"))):
        emulation.launch(0.0, name, map_plan(index, [(block, 120 * MB)]))
    assert ends(emulation) == pytest.approx({"m_0": 10.0, "m_1": 10.0, "m_2": 10.0, "m_3": 5.0})


def test_a_pipeline_into_another_rack_passes_core_and_downlink() -> None:
    for links in (LinkRates(down_bps=20.0 * MB), LinkRates(core_bps=20.0 * MB)):
        emulation = racked("r0 r1", links, Blocks(others=["n1"]))
        emulation.launch(0.0, "n0", map_plan(0, output="/o", replication=2, output_bytes=100 * MB))
        assert ends(emulation) == pytest.approx({"m_0": 5.0})


class Idle:
    """An owner of flows whose end is never reached."""

    def fire(self, item: Item) -> None:
        raise AssertionError("nothing is due here")


rates = st.none() | st.integers(1, 80).map(float)
pairs = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=14)


@given(st.lists(st.integers(0, 2), min_size=6, max_size=6), rates, rates, rates, pairs, st.integers(0, 7))
def test_no_budget_is_exceeded_and_each_flow_has_a_full_one(
    racks: list[int],
    up: float | None,
    down: float | None,
    core: float | None,
    between: list[tuple[int, int]],
    stopped: int,
) -> None:
    """Rates are max-min fair: each flow passes a full link on which no flow is faster."""
    names = " ".join(f"r{rack}" for rack in racks)
    emulation = racked(names, LinkRates(up_bps=up, down_bps=down, core_bps=core))
    world = emulation._world
    flows: list[Flow] = []
    for one, other in between:
        if one != other:
            way = world.hosts[f"n{one}"].way_to(world.hosts[f"n{other}"])
            flows.append(Flow(Idle(), 0, 1e15, 1e9, way))
            world.sharing.start(flows[-1])
    world.sharing.settle()
    check(flows)
    for flow in flows[:stopped]:
        world.sharing.stop(flow)
    world.sharing.settle()
    check(flows[stopped:])
    assert not world.sharing.solved.cut_short


def check(flows: list[Flow]) -> None:
    every: dict[Resource, None] = dict.fromkeys(each for flow in flows for each in flow.resources)
    for budget in every:
        assert sum(flow.rate for flow in budget.flows) <= budget.capacity * (1 + 1e-6)
    for flow in flows:
        assert any(
            sum(each.rate for each in budget.flows) >= budget.capacity * (1 - 1e-6)
            and flow.rate >= max(each.rate for each in budget.flows) * (1 - 1e-6)
            for budget in flow.resources
        )


def test_a_solve_that_ends_at_the_reach_is_counted() -> None:
    """A change at n0 concerns 17 flows, more than the reach allows, so other flows keep their rates.

    The number of such incomplete solutions is in `cut_short`.
    """
    emulation = racked("r0 " * 35, LinkRates())
    world = emulation._world
    ends = [(0, number) for number in range(1, 18)] + [(17 + number, number) for number in range(1, 18)]
    for one, other in ends:
        way = world.hosts[f"n{one}"].way_to(world.hosts[f"n{other}"])
        world.sharing.start(Flow(Idle(), 0, 1e15, 50.0 * MB, way))
    world.sharing.settle()
    assert world.sharing.solved.cut_short == 0
    world.sharing.resize(world.hosts["n0"].tx, 10.0 * MB)
    world.sharing.settle()
    assert world.sharing.solved.cut_short == 1
