"""Find the resources that a flow passes; mirrors `cluster.virtual.fluid.shared_nodes` (compiled)."""

from __future__ import annotations

from schedbed.scheduler.simulate.compiled.contended.flow_records import DISK, IN, OUT
from schedbed.scheduler.simulate.compiled.jit import compiled, twin_of
from schedbed.scheduler.simulate.compiled.state import State


@compiled
def pass_through(state: State, item: int, number: int) -> None:
    """The flow passes one more resource, if that is new to it."""
    flow = state.flows[item]
    for place in range(flow.ways):
        if state.way[item, place] == number:
            return
    state.way[item, flow.ways] = number
    flow.ways += 1


@twin_of("schedbed.cluster.virtual.fluid.shared_nodes:SharedNode.__init__")
@compiled
def pass_drive(state: State, item: int, node: int) -> None:
    """The flow passes what `SharedNode.drive` is: the node's disk, and once more the one that it shares."""
    pass_through(state, item, 4 * node + DISK)
    if state.hosts[node].shared > 0:
        flow = state.flows[item]
        state.way[item, flow.ways] = state.hosts[node].shared
        flow.ways += 1


@twin_of("schedbed.cluster.virtual.fluid.shared_nodes:SharedNode.way_to")
@compiled
def go_over(state: State, item: int, node: int, other: int) -> None:
    """Mirrors `SharedNode.way_to`: the flow leaves one node for another."""
    pass_through(state, item, 4 * node + OUT)
    rack = state.nodes[node].rack
    if state.num.has_uplinks and rack != state.nodes[other].rack:
        pass_through(state, item, 4 * len(state.nodes) + rack)
    go_in(state, item, node, other)


@twin_of("schedbed.cluster.virtual.fluid.shared_nodes:SharedNode.way_in")
@compiled
def go_in(state: State, item: int, node: int, other: int) -> None:
    """Mirrors `SharedNode.way_in`: the flow comes from one node into another."""
    rack, links = state.nodes[other].rack, 4 * len(state.nodes) + state.num.racks
    if rack != state.nodes[node].rack:
        if state.num.has_core:
            pass_through(state, item, links + state.num.racks)
        if state.num.has_downlinks:
            pass_through(state, item, links + rack)
    pass_through(state, item, 4 * other + IN)


@compiled
def narrowest(state: State, item: int) -> float:
    """Return the least declared capacity on the flow's way."""
    least = state.resources[state.way[item, 0]].declared
    for place in range(1, state.flows[item].ways):
        least = min(least, state.resources[state.way[item, place]].declared)
    return least
