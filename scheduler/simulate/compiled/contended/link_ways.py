"""The path of a flow: the disks, NICs and links it uses (compiled). Mirrors `cluster.virtual.fluid.shared_nodes`."""

from __future__ import annotations

from schedbed.scheduler.simulate.compiled.contended.flow_records import DISK, IN, OUT
from schedbed.scheduler.simulate.compiled.jit import compiled, twin_of
from schedbed.scheduler.simulate.compiled.state import State


@compiled
def pass_through(state: State, item: int, number: int) -> None:
    """Append the resource `number` to the path of the flow `item`, unless the path contains it already."""
    flow = state.flows[item]
    for place in range(flow.ways):
        if state.way[item, place] == number:
            return
    state.way[item, flow.ways] = number
    flow.ways += 1


@twin_of("schedbed.cluster.virtual.fluid.shared_nodes:SharedNode.__init__")
@compiled
def pass_drive(state: State, item: int, node: int) -> None:
    """Append the node's disk, and a disk that it shares, to a flow's path."""
    pass_through(state, item, 4 * node + DISK)
    if state.hosts[node].shared > 0:
        flow = state.flows[item]
        state.way[item, flow.ways] = state.hosts[node].shared
        flow.ways += 1


@twin_of("schedbed.cluster.virtual.fluid.shared_nodes:SharedNode.way_to")
@compiled
def go_over(state: State, item: int, node: int, other: int) -> None:
    """Append the network links from `node` to `other` to the path of the flow `item`. Mirrors `SharedNode.way_to`."""
    pass_through(state, item, 4 * node + OUT)
    rack = state.nodes[node].rack
    if state.num.has_uplinks and rack != state.nodes[other].rack:
        pass_through(state, item, 4 * len(state.nodes) + rack)
    go_in(state, item, node, other)


@twin_of("schedbed.cluster.virtual.fluid.shared_nodes:SharedNode.way_in")
@compiled
def go_in(state: State, item: int, node: int, other: int) -> None:
    """Append the receiving side to a flow's path: between racks core switch and downlink, and the NIC."""
    rack, links = state.nodes[other].rack, 4 * len(state.nodes) + state.num.racks
    if rack != state.nodes[node].rack:
        if state.num.has_core:
            pass_through(state, item, links + state.num.racks)
        if state.num.has_downlinks:
            pass_through(state, item, links + rack)
    pass_through(state, item, 4 * other + IN)


@compiled
def narrowest(state: State, item: int) -> float:
    """Return the smallest declared capacity (bytes/s) of the resources on the path of the flow `item`."""
    least = state.resources[state.way[item, 0]].declared
    for place in range(1, state.flows[item].ways):
        least = min(least, state.resources[state.way[item, place]].declared)
    return least
