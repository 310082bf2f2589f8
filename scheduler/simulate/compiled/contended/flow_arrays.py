"""Creation and enlargement of the arrays for attempts that contend for resources."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from schedbed.cluster.spec import NodeSpec, shared_disks
from schedbed.cluster.virtual.fluid.reduce_phases import buffer_bytes
from schedbed.cluster.virtual.node_model import TaskCost
from schedbed.scheduler.simulate.compiled import entity_records as plain
from schedbed.scheduler.simulate.compiled.arrays import Arrays, Table, Values, longer, records
from schedbed.scheduler.simulate.compiled.contended import flow_records as kinds
from schedbed.scheduler.simulate.compiled.state import State

if TYPE_CHECKING:
    from schedbed.scheduler.simulate.simulation import Simulation

ITEMS_A_SLOT = 2
MORE_ITEMS = MORE_REPLIES = 1024
"""Initial sizes in addition to two items per slot and four replies per node. The arrays grow when needed."""
AGENDA_ENTRIES = 8  # Heap entries for each item.
PENDING_MAX = 1 << 30
"""Largest size of the arrays of pending map outputs: reduce slots times source nodes."""


def why_not(simulation: Simulation, costs: list[TaskCost]) -> str | None:
    """Return why the compiled loop cannot simulate contention with these costs, or None."""
    if any(cost.duration_s is not None for cost in costs):
        return "durations are known of tasks that contend"
    if any(cost.partitions is not None for cost in costs):
        return "reduces get unequal parts"
    if any(node.start_s <= 0.0 for node in simulation.nodes):
        return "attempts start at the very time of their launch"
    slots = sum(node.spec.reduce_slots for node in simulation.nodes)
    if slots * _sources(simulation) > PENDING_MAX:
        return "there may be too many fetches"
    return None


def _sources(simulation: Simulation) -> int:
    """Return the most nodes from which one reduce may fetch, plus one spare column."""
    most = max((job.maps for job in simulation.jobs if job.reduces), default=0)
    return min(most, len(simulation.nodes)) + 1


def no_fluid() -> Arrays:
    """Return arrays of minimal size for a simulation without contention, which never uses them."""
    small = np.zeros(1, np.int64)
    few = small.reshape(1, 1)
    two = ("way", "work_flows", "pending_node", "pending_count", "pending_bytes")
    tables = {
        "hosts": kinds.HostEntry,
        "resources": kinds.ResourceEntry,
        "flows": kinds.FlowEntry,
        "work": kinds.WorkEntry,
    }
    return {
        **{name: records(1, kind) for name, kind in tables.items()},
        **{name: _of_kind(name, few) for name in two},
        **{name: _of_kind(name, small) for name in _LINES},
        "agenda_s": np.zeros(1),
    }


_LINES = (
    *("before", "after", "item_free", "agenda_code", "touched", "found", "in_order", "spare", "links", "far"),
    *("work_free", "basket_free", "outputs", "told", "targets"),
)
_WIDE = ("agenda_code", "before", "after", "pending_bytes")


def _of_kind(name: str, values: Values) -> Values:
    return values.astype(np.int64 if name in _WIDE else np.int32)


def fluid(simulation: Simulation, tasks: int) -> Arrays:
    """Return the arrays for a simulation with contention and `tasks` tasks, before any attempt runs."""
    nodes = simulation.nodes
    reduces = max(1, sum(node.spec.reduce_slots for node in nodes))
    slots = sum(node.spec.map_slots + node.spec.reduce_slots for node in nodes) + 1
    racks = len({node.spec.rack for node in nodes})
    resources = 4 * len(nodes) + 2 * racks + 1 + len(_shared_disks(simulation))
    replication = simulation.setup.cluster.blocks.replication
    items, width = (
        ITEMS_A_SLOT * slots + MORE_ITEMS,
        _longest_way(simulation, replication),
    )
    sources = _sources(simulation)
    return {
        "hosts": _hosts(simulation),
        "resources": _resources(simulation, racks),
        "flows": records(items, kinds.FlowEntry),
        "way": np.zeros((items, width), np.int32),
        "before": np.zeros(items * width, np.int64),
        "after": np.zeros(items * width, np.int64),
        "item_free": np.arange(items - 1, -1, -1, dtype=np.int32),
        "agenda_s": np.zeros(AGENDA_ENTRIES * items),
        "agenda_code": np.zeros(AGENDA_ENTRIES * items, np.int64),
        "touched": np.zeros(items * width, np.int32),
        "found": np.zeros(items, np.int32),
        "in_order": np.zeros(items, np.int32),
        "spare": np.zeros(items, np.int32),
        "links": np.zeros(resources, np.int32),
        "far": np.zeros(resources, np.int32),
        "work": records(slots, kinds.WorkEntry),
        "work_flows": np.zeros((slots, kinds.PHASE_FLOWS), np.int32),
        "work_free": np.arange(slots - 1, -1, -1, dtype=np.int32),
        "pending_node": np.zeros((reduces, sources), np.int32),
        "pending_count": np.zeros((reduces, sources), np.int32),
        "pending_bytes": np.zeros((reduces, sources), np.int64),
        "basket_free": np.arange(reduces - 1, -1, -1, dtype=np.int32),
        "outputs": np.zeros(max(1, tasks), np.int32),
        "told": np.zeros(slots, np.int32),
        "targets": np.zeros(replication, np.int32),
    }


def _shared_disks(simulation: Simulation) -> dict[str, NodeSpec]:
    return shared_disks(node.spec for node in simulation.nodes)


def _longest_way(simulation: Simulation, replication: int) -> int:
    """Return the most resources that one flow uses: a read across racks, or a replication pipeline.

    That uses each node's disk and NIC (at the last one, one direction), an uplink for each transfer, and a
    downlink and a shared disk for each node.
    """
    links = simulation.setup.cluster.links
    read, pipeline = 4, 4 * replication - 2
    if links.down_bps is not None:
        read, pipeline = read + 1, pipeline + replication
    if links.core_bps is not None:
        read, pipeline = read + 1, pipeline + 1
    if _shared_disks(simulation):
        read, pipeline = read + 1, pipeline + replication
    return max(read, pipeline)


def _hosts(simulation: Simulation) -> Table[kinds.HostEntry]:
    table, latencies = records(len(simulation.nodes), kinds.HostEntry), simulation.setup.latencies
    racks = len({node.spec.rack for node in simulation.nodes})
    first = 4 * len(table) + 2 * racks + 1
    shared = {name: first + place for place, name in enumerate(_shared_disks(simulation))}
    table["seen"] = simulation.setup.timing.begin_s
    for node, entry in zip(simulation.nodes, table, strict=False):
        speed = node.spec.core_speed
        entry.cores, entry.memory, entry.paging = node.spec.cores, node.spec.memory_bytes, node.spec.paging
        entry.shared = shared.get(node.spec.shared_disk, 0)
        entry.end_latency, entry.fetch_latency = latencies.end(speed), latencies.fetch(speed)
        entry.block_latency = latencies.block(speed)
    return table


def _resources(simulation: Simulation, racks: int) -> Table[kinds.ResourceEntry]:
    nodes, setup, shared = simulation.nodes, simulation.setup, _shared_disks(simulation)
    table = records(4 * len(nodes) + 2 * racks + 1 + len(shared), kinds.ResourceEntry)
    capacity = table["capacity"]
    capacity[: 4 * len(nodes)] = [
        rate
        for spec in (node.spec for node in nodes)
        for rate in (spec.cores * setup.latencies.core_share, spec.disk_bps, *(spec.network_bps,) * 2)
    ]
    links, first = setup.cluster.links, 4 * len(nodes)
    capacity[first : first + racks] = links.up_bps or 0.0
    capacity[first + racks : first + 2 * racks] = links.down_bps or 0.0
    capacity[first + 2 * racks] = links.core_bps or 0.0
    capacity[first + 2 * racks + 1 :] = [spec.disk_bps for spec in shared.values()]
    table["declared"] = capacity
    seek = table["seek"]
    seek[kinds.DISK : first : 4] = [0.0 if node.spec.shared_disk else node.spec.seek for node in nodes]
    seek[first + 2 * racks + 1 :] = [spec.seek for spec in shared.values()]
    table["head"] = table["tail"] = -1
    return table


def begin(simulation: Simulation, state: State) -> None:
    """Set the fields that only contention uses: links, blocks, unused records, memory of jobs."""
    num, setup = state.num, simulation.setup
    num.is_fluid = 1
    links = setup.cluster.links
    num.racks = len({node.spec.rack for node in simulation.nodes})
    num.has_uplinks = links.up_bps is not None
    num.has_downlinks = links.down_bps is not None
    num.has_core = links.core_bps is not None
    num.block_bytes = setup.cluster.blocks.size_bytes
    num.free_items, num.free_work = len(state.item_free), len(state.work_free)
    num.free_baskets = len(state.basket_free)
    num.room = len(state.launched) + 16
    state.sec.core_share = setup.latencies.core_share
    for job, entry in zip(simulation.jobs, state.jobs, strict=False):
        entry.room = buffer_bytes(job.reduce_demand.memory_bytes)
        entry.map_memory, entry.reduce_memory = job.map_demand.memory_bytes, job.reduce_demand.memory_bytes


def replies(simulation: Simulation, most: int, widest: int) -> Arrays:
    """Return ring buffers for replies that announce outputs or stop attempts, and their items.

    `most` suffices without contention. `widest` is larger than the announcements in any reply.
    """
    count = 4 * len(simulation.nodes) + MORE_REPLIES if simulation.setup.contention else most + 1
    return {
        "replies": records(count, plain.ReplyEntry),
        "reply_items": records(count + widest, plain.NewsEntry),
    }


def grown(state: State) -> State:
    """Return the state with doubled arrays of flows, their events and replies, which may be full."""
    num, items = state.num, len(state.flows)
    changed: Arrays = {
        name: longer(array, len(array))
        for name in ("flows", "way", "before", "after", "agenda_s", "agenda_code", "touched")
        for array in (getattr(state, name),)
    }
    changed |= {name: np.zeros(2 * items, np.int32) for name in ("found", "in_order", "spare")}
    changed["item_free"] = free = longer(state.item_free, len(state.item_free))
    count = int(num.free_items)
    free[count : count + items] = np.arange(2 * items - 1, items - 1, -1)
    num.free_items += items
    changed["replies"] = _longer_ring(cast("Values", state.replies), num.replies_done, num.replies)
    changed["reply_items"] = _longer_ring(cast("Values", state.reply_items), num.items_done, num.reply_items)
    changed["event_s"] = longer(state.event_s, len(state.replies))
    changed["event_code"] = longer(state.event_code, len(state.replies))
    return state._replace(**changed)


def _longer_ring(ring: Values, first: int, end: int) -> Values:
    """Return a ring of twice the length with the entries [first, end); number n moves to n modulo the length."""
    longer = np.zeros(2 * len(ring), ring.dtype).view(np.recarray)
    for number in range(int(first), int(end)):
        longer[number % len(longer)] = ring[number % len(ring)]
    return longer
