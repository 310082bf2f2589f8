"""The records for attempts that contend for resources: nodes, resources, flows through resources, and running
attempts.
"""

from __future__ import annotations

from schedbed.scheduler.simulate.compiled.arrays import Record, f8, i1, i4, i8


class HostEntry(Record):
    """A node with shared resources: capacities, latencies and use. Mirrors `shared_nodes.SharedNode`."""

    seen: f8  # Time of the last `usage`; the next four are the amounts moved by then.
    cpu_seen: f8
    disk_seen: f8
    tx_seen: f8
    rx_seen: f8
    cores: f8
    memory: i8
    paging: f8
    claimed: i8  # Memory that the node's attempts declare, in bytes.
    shared: i4  # Number of the disk resource shared with other nodes; 0 if none.
    end_latency: f8
    fetch_latency: f8
    block_latency: f8


class ResourceEntry(Record):
    """A resource that flows share. Mirrors `max_min.Resource`.

    The table has four for each node (CPU, disk, outward and inward NIC), then racks' uplinks, downlinks, the
    core switch, and disks of several nodes.
    """

    capacity: f8
    declared: f8
    seek: f8
    demand: f8
    moved: f8
    free: f8
    seen: i8
    solved: i8
    changed: i8  # Stamp of the last change; `_due` of `Resource`.
    unfixed: i8
    count: i8  # Length of the list of flows, in the order of their start.
    head: i8
    tail: i8
    over: i1


class FlowEntry(Record):
    """A flow (`max_min.Flow`), or a timer (`agenda.Item`), which uses no resources."""

    due: f8
    queued: f8
    total: f8
    left: f8
    cap: f8
    rate: f8
    at: f8
    fair: f8
    seen: i8
    work: i4  # The attempt that owns the flow.
    batch: i4  # Number of map outputs that the flow fetches.
    entries: i4  # Number of the item's entries in the agenda's heap.
    ways: i1  # Number of resources on the flow's path.
    role: i1
    live: i1


class WorkEntry(Record):
    """The state of a running attempt: its phase, its flows, and its fetched data. Mirrors `RunningAttempt`."""

    task: i4
    node: i4
    timer: i4
    basket: i4  # Row of a reduce in the `pending` arrays.
    streams: i4
    flows: i4  # Number of flows of the current phase.
    fetching: i4
    handling: i1  # 1 while a CPU flow handles fetched data.
    pending: i4  # Number of source nodes with outputs still to fetch.
    phase: i1
    started: i1
    ended: i1
    fetched: i8
    picks: i8
    left: i8  # Bytes of output for which no block was requested yet.
    pace: f8
    phase_bytes: f8
    phase_moved: f8
    buffered: f8
    on_disk: f8
    owed: f8  # CPU seconds for fetched data after the current CPU flow.


CPU, DISK, OUT, IN = range(4)
"""Offsets of a node's resources: resource `4 * node + CPU` and so on."""

MAPPING, SHUFFLING, SORTING, REDUCING = range(4)
"""Phases of an attempt."""

START, COMPUTE, OWN_DISK, READ, WRITE, FETCH, COPY, END = range(8)
"""Roles of flows and timers."""

PHASE_FLOWS = 4
"""Largest number of flows of a phase: computing, own disk, reading, writing."""

ITEM_BITS = 24
ITEM_MASK = (1 << ITEM_BITS) - 1
