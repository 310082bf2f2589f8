"""Nodes whose attempts share CPU, disk and network, and the links between racks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from schedbed.cluster.messages import AttemptReport, AttemptStatus, Usage
from schedbed.cluster.spec import LinkRates, NodeSpec
from schedbed.cluster.virtual.agenda import Agenda, Item, Owner
from schedbed.cluster.virtual.boards import AnnouncedOutputs
from schedbed.cluster.virtual.fluid.max_min import Flow, Resource, Sharing
from schedbed.cluster.virtual.latencies import Latencies
from schedbed.cluster.virtual.node_model import AttemptPlan, Happening, Partition, Store
from schedbed.cluster.virtual.plan_arithmetic import PartitionSizes, nearest_first
from schedbed.tasks.chance import chance
from schedbed.tasks.specs import NodeId

STALL_S = 20.0  # A reader gives up a node that sends no byte for this time.


class AttemptOnNode(Protocol):
    """The interface of a simulated attempt for its node, implemented by `running.RunningAttempt`."""

    plan: AttemptPlan
    report: AttemptReport | None

    def memory_bytes(self, now_s: float) -> int:
        """Return the number of bytes of memory that the attempt uses at `now_s`."""
        ...

    def status(self, now_s: float) -> AttemptStatus:
        """Return the status of the running attempt for the node's heartbeat."""
        ...

    def fail(self, reason: str) -> None:
        """End the attempt as failed for the given reason."""
        ...

    def kill(self, reason: str) -> None:
        """End the attempt as killed for the given reason."""
        ...

    def vanish(self) -> None:
        """Remove the attempt without a report, because its node is lost."""
        ...


class Stall(Item):
    """An event at which attempts on other nodes stop waiting for data from the frozen node `host`."""

    __slots__ = ("host",)

    def __init__(self, owner: Owner, host: SharedNode) -> None:
        super().__init__(owner, -1)
        self.host = host


class RackLinks(NamedTuple):
    """The links of a rack out, in, and the switch between all. None does not limit."""

    up: Resource | None
    down: Resource | None
    core: Resource | None


class SharedNode:
    """A node in one incarnation. CPU is in seconds of one emulated core, the rest in bytes.

    Disk traffic uses `drive`: the own disk, slowed by faults and paging, and one shared with other nodes.
    """

    __slots__ = (
        "boards",
        "cpu",
        "cpu_factor",
        "disk",
        "disk_factor",
        "drive",
        "free_running",
        "full",
        "links",
        "name",
        "outputs",
        "runs",
        "rx",
        "seen",
        "spec",
        "stall",
        "tx",
    )

    def __init__(
        self,
        spec: NodeSpec,
        links: RackLinks,
        watcher: Owner,
        core_share: float,
        shared_disk: Resource | None,
    ) -> None:
        self.spec = spec
        self.name = spec.node
        self.cpu = Resource(spec.cores * core_share)
        self.disk = Resource(spec.disk_bps, spec.seek if shared_disk is None else 0.0)
        self.drive = (self.disk,) if shared_disk is None else (self.disk, shared_disk)
        self.disk_factor = 1.0
        self.tx = Resource(spec.network_bps)
        self.rx = Resource(spec.network_bps)
        self.links = links  # The links of the node's rack.
        self.cpu_factor = 1.0
        self.full = False  # True if a fault has filled the disk.
        self.runs: dict[str, AttemptOnNode] = {}
        self.boards: dict[str, AnnouncedOutputs] = {}
        self.outputs: dict[str, dict[str, tuple[int, ...]]] = {}  # Partition sizes by job and map attempt.
        self.free_running: dict[Flow, None] = {}  # Work of known duration, without contention.
        self.stall = Stall(watcher, self)
        self.seen = 0.0, 0.0, 0.0, 0.0, 0.0  # Time and units moved at the last call of `usage`.

    def disk_bps(self) -> float:
        """Return the current rate of the node's disk in bytes/s, which faults and paging may lower."""
        bps = self.disk.declared * self.disk_factor
        if not self.spec.paging:
            return bps
        return bps / self.spec.paging_factor(sum(run.plan.memory_bytes for run in self.runs.values()))

    @property
    def frozen(self) -> bool:
        """Return whether disk or NIC have rate 0."""
        return not (self.disk.capacity and self.tx.capacity)

    def board(self, job: str) -> AnnouncedOutputs:
        """Return the map outputs of a job that have been announced to this node."""
        board = self.boards.get(job)
        if board is None:
            board = self.boards[job] = AnnouncedOutputs()
        return board

    def way_to(self, other: SharedNode) -> list[Resource]:
        """Return the resources of a transfer to another node, with the links between racks as in a live run."""
        if self.links.up is not None and self.spec.rack != other.spec.rack:
            return [self.tx, self.links.up, *other.way_in(self)]
        return [self.tx, *other.way_in(self)]

    def way_in(self, other: SharedNode) -> list[Resource]:
        """Return the receiving side's resources of a transfer from another node."""
        if self.spec.rack == other.spec.rack:
            return [self.rx]
        return [*(link for link in (self.links.core, self.links.down) if link is not None), self.rx]

    def usage(self, now_s: float) -> Usage:
        """Return the node's use of CPU, disk, network and memory since the last call of this method."""
        resources = self.cpu, self.disk, self.tx, self.rx
        cpu, disk, tx, rx = (resource.moved_until(now_s) for resource in resources)
        before_s, cpu_before, disk_before, tx_before, rx_before = self.seen
        self.seen = now_s, cpu, disk, tx, rx
        elapsed_s = max(now_s - before_s, 1e-6)
        network = max(tx - tx_before, rx - rx_before)
        spec = self.spec
        return Usage(
            cpu_util=min(1.0, (cpu - cpu_before) / elapsed_s / spec.cores),
            disk_util=min(1.0, (disk - disk_before) / elapsed_s / spec.disk_bps),
            net_util=min(1.0, network / elapsed_s / spec.network_bps),
            memory_bytes=sum(run.memory_bytes(now_s) for run in self.runs.values()),
        )


class SharedCluster:
    """All simulated nodes, links, faults, events and blocks. `fetch_bps` limits a reduce's fetching (0: no
    limit).

    With `remembers`, `consumed` records which map attempts each reduce read.
    """

    def __init__(
        self,
        store: Store,
        latencies: Latencies,
        links: LinkRates,
        remembers: bool,
        fetch_bps: float = 0.0,
    ) -> None:
        self.store = store
        self.latencies = latencies
        self.agenda = Agenda()
        self.sharing = Sharing(self.agenda)
        self.hosts: dict[NodeId, SharedNode] = {}
        self.racks: dict[NodeId, str] = {}
        self.partition = Partition()
        self.delays: dict[NodeId, float] = {}  # Delays (s) of connections from and to a node.
        self.losses: dict[NodeId, float] = {}  # Shares of connections that fail, by node.
        self._connections = 0  # Number of connections subject to losses.
        self.sizes = PartitionSizes()
        self.told: list[Happening] = []
        self.consumed: dict[str, dict[int, str]] = {}
        self.remembers = remembers  # Whether `consumed` is recorded.
        self.fetch_bps = fetch_bps  # Fetch rate of one reduce; 0 for no limit.
        self._rates = links
        self._core = _link(links.core_bps)
        self._links: dict[str, RackLinks] = {}  # Links by rack.
        self._disks: dict[str, Resource] = {}  # Disks shared by nodes, by name.

    def add(self, spec: NodeSpec, watcher: Owner) -> None:
        """Add a node that starts. If it freezes, `watcher.fire` ends the wait for its data (`Stall`)."""
        links = self._links.get(spec.rack)
        if links is None:
            links = RackLinks(_link(self._rates.up_bps), _link(self._rates.down_bps), self._core)
            self._links[spec.rack] = links
        name, disk = spec.shared_disk, None
        if name:
            disk = self._disks.get(name)
            if disk is None:
                disk = self._disks[name] = Resource(spec.disk_bps, spec.seek)
        host = self.hosts[spec.node] = SharedNode(spec, links, watcher, self.latencies.core_share, disk)
        host.seen = self.agenda.now_s, 0.0, 0.0, 0.0, 0.0
        self.racks[spec.node] = spec.rack

    def enter(self, host: SharedNode, run: AttemptOnNode) -> None:
        host.runs[run.plan.attempt] = run
        self._page(host)

    def leave(self, host: SharedNode, run: AttemptOnNode) -> None:
        del host.runs[run.plan.attempt]
        self._page(host)

    def _page(self, host: SharedNode) -> None:
        """Update a node's disk rate, which paging lowers."""
        if host.spec.paging and (bps := host.disk_bps()) != host.disk.capacity:
            self.sharing.resize(host.disk, bps)

    def reached_from(self, host: SharedNode, other: NodeId) -> SharedNode | None:
        """Return `other` if `host` can connect to it. If it is frozen, attempts wait until a timeout."""
        there = self.hosts.get(other)
        if there is None or not self.partition.joins(host.name, other):
            return None
        if self.losses and there is not host and self._is_lost(host.name, other):
            return None
        if there.frozen:
            self.watch(there)
        return there

    def _is_lost(self, one: NodeId, other: NodeId) -> bool:
        share = max(self.losses.get(one, 0.0), self.losses.get(other, 0.0))
        self._connections += 1
        return chance(0, "loss", one, other, self._connections).random() < share

    def lag_s(self, host: SharedNode, detail: object) -> float:
        """Return the seconds that faults delay a transfer. `detail` (`Flow.detail`) has the other nodes, if any."""
        if not self.delays:
            return 0.0
        others = detail if isinstance(detail, list) else [detail]
        there = [other for other in others if isinstance(other, SharedNode) and other is not host]
        ends = [host, *there] if there else []
        return sum(self.delays.get(end.name, 0.0) for end in ends)

    def watch(self, host: SharedNode) -> None:
        """Schedule the timeout of waiting for a frozen node."""
        if host.stall.due_s == math.inf:
            self.agenda.at(self.agenda.now_s + STALL_S, host.stall)

    def source(self, host: SharedNode, block: str, turn: int, tried: Sequence[NodeId]) -> SharedNode | None:
        """Return the nearest reachable holder not in `tried`; equal distances rotate by `turn`."""
        holders = self.store.holders(block)
        if host.name in holders and host.name not in tried:
            return host
        for name in nearest_first(holders, host.spec, self.racks, turn):
            if name not in tried and (there := self.reached_from(host, name)):
                return there
        return None

    def pipeline(self, names: Sequence[NodeId], writer: SharedNode) -> list[SharedNode]:
        """Return the nodes of a write pipeline that are not full, each reachable from the last."""
        chain: list[SharedNode] = []
        for name in names:
            there = self.reached_from(chain[-1] if chain else writer, name)
            if there is not None and not there.full:
                chain.append(there)
        return chain


def _link(rate_bps: float | None) -> Resource | None:
    return None if rate_bps is None else Resource(rate_bps)


def pipeline_way(writer: SharedNode, chain: Sequence[SharedNode]) -> list[Resource]:
    """Return the resources of writing a block to a chain: disks and the network between them.

    As in a live run, sending from the writer's node uses none of its resources. A disk shared by nodes occurs
    once for each.
    """
    way: list[Resource] = []
    if chain[0] is not writer:
        way += chain[0].way_in(writer)
    for number, host in enumerate(chain):
        way += host.drive
        if number + 1 < len(chain):
            way += (link for link in host.way_to(chain[number + 1]) if link not in way)
    return way
