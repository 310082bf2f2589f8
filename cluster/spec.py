"""A cluster as values: its nodes with declared rates, racks and block settings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from schedbed.tasks.specs import NodeId

BY_HOST = "by-host"
"""The rack of nodes whose rack is to be the host that they will lie on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSpec:
    """An emulated node. `core_speed` is the share of a host core that one emulated core gets.

    `latency_s` is added to each message to or from its NIC, and the share `loss` of them is lost
    (`cluster.conditions.by_nature`). Its disk gives n streams `disk_bps` / (1 + `seek` x (n - 1)) together; nodes
    with the same `shared_disk` share one such disk. `paging` slows the disk while tasks declare more memory than the
    node has (`paging_factor`).
    """

    node: NodeId
    rack: str
    cores: int
    core_speed: float
    memory_bytes: int
    disk_bps: float  # bytes/s, reads and writes together
    network_bps: float  # bytes/s each way
    map_slots: int
    reduce_slots: int
    latency_s: float = 0.0
    loss: float = 0.0
    host: str = ""  # that a run over many hosts must place it on, "" for any
    seek: float = 0.0
    paging: float = 0.0
    shared_disk: str = ""  # the name of the disk, "" for one of its own
    foreground: tuple[tuple[float, float], ...] = ()
    """Times of the run in seconds, in order, each with the share of the CPU that other work has ahead of tasks from
    then on."""

    def __post_init__(self) -> None:
        """Convert `foreground` to tuples, since JSON has only lists."""
        load = tuple((at_s, share) for at_s, share in self.foreground)
        object.__setattr__(self, "foreground", load)

    @property
    def cpu_rate(self) -> float:
        """Return the host core-seconds per second of all attempts of the node together."""
        return self.cores * self.core_speed

    def free_cpu(self, now_s: float) -> float:
        """Return the share of the node's CPU that the foreground load leaves to tasks at that time of the run."""
        left = 1.0
        for at_s, share in self.foreground:
            if at_s > now_s:
                break
            left = 1.0 - share
        return left

    def paging_factor(self, declared_bytes: int) -> float:
        """Return the divisor of the disk's rate while the node's tasks declare that much memory.

        It is 1 + `paging` x excess, with excess = declared / memory - 1, and 1 while everything fits. Memory in excess
        is written to the disk and read back as tasks alternate. For each byte that tasks move, the disk then moves
        `paging` x excess bytes of memory, so tasks get 1 / (1 + `paging` x excess) of its rate.
        """
        if not self.paging or declared_bytes <= self.memory_bytes:
            return 1.0
        return 1.0 + self.paging * (declared_bytes / self.memory_bytes - 1.0)

    def on_host(self, speed: float) -> NodeSpec:
        """Return the node for a host whose cores are `speed` times as fast as the cores that `core_speed` refers
        to."""
        return self if speed == 1 else replace(self, core_speed=self.core_speed / speed)

    def stretched(self, stretch: float) -> NodeSpec:
        """Return the node with its rates converted to real seconds, `stretch` of which are one emulated second."""
        if stretch == 1:
            return self
        return replace(
            self,
            core_speed=self.core_speed / stretch,
            disk_bps=self.disk_bps / stretch,
            network_bps=self.network_bps / stretch,
        )


def shared_disks(nodes: Iterable[NodeSpec]) -> dict[str, NodeSpec]:
    """Return the disks that nodes share, by name, each with the first node that uses it."""
    found: dict[str, NodeSpec] = {}
    for node in nodes:
        if node.shared_disk:
            found.setdefault(node.shared_disk, node)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkRates:
    """Rates of the links between racks in bytes/s; None for no limit.

    The nodes of a rack share `up_bps` to other racks and `down_bps` from other racks; all racks share `core_bps`.
    """

    up_bps: float | None = None
    down_bps: float | None = None
    core_bps: float | None = None

    def slowed(self, factor: float) -> LinkRates:
        """Return these rates divided by `factor`."""
        return LinkRates(
            up_bps=None if self.up_bps is None else self.up_bps / factor,
            down_bps=None if self.down_bps is None else self.down_bps / factor,
            core_bps=None if self.core_bps is None else self.core_bps / factor,
        )


NO_LINK_RATES = LinkRates()


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicReplicas:
    """Number of replicas by epochs. `scheme` is scarlett (`delta`, `budget`) or cdrm (`availability`, `failure`)."""

    scheme: str
    epoch_s: float = 60.0
    delta: int = 1
    budget: float = 0.2
    availability: float = 0.99
    failure: float = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockSettings:
    """Size and placement of blocks.

    `skew` is the share of nodes that hold everything under `skewed`. `keep_share` of the maps that fetch their block
    leave a replica of it (DARE); these take at most `keep_budget` of the size of all inputs with their replicas.
    """

    size_bytes: int = 64 * 2**20
    replication: int = 3
    placement: str = "hdfs"  # hdfs | even | skewed
    skew: float | None = None
    keep_share: float = 0.0
    keep_budget: float = 0.2
    replicas: DynamicReplicas | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSpec:
    """All nodes of a cluster, with common settings. `limits`: auto | cgroup | software | off.

    Rates and `heartbeat_s` are in emulated seconds, each of which lasts `stretch` real ones in a live run.
    """

    nodes: tuple[NodeSpec, ...]
    heartbeat_s: float = 0.5
    uplink_bps: float | None = None  # bytes/s shared by a rack towards other racks
    downlink_bps: float | None = None  # bytes/s shared by a rack from other racks
    core_switch_bps: float | None = None  # bytes/s shared by all racks between each other
    limits: str = "auto"
    stretch: float = 1.0
    blocks: BlockSettings = field(default_factory=BlockSettings)

    @property
    def links(self) -> LinkRates:
        """Return the rates of the links between racks."""
        return LinkRates(up_bps=self.uplink_bps, down_bps=self.downlink_bps, core_bps=self.core_switch_bps)

    def with_links(self, links: LinkRates) -> ClusterSpec:
        """Return the cluster with other rates of the links between racks."""
        return replace(
            self, uplink_bps=links.up_bps, downlink_bps=links.down_bps, core_switch_bps=links.core_bps
        )

    def with_seek(self, seek: float) -> ClusterSpec:
        """Return the cluster with that `seek` for nodes that declare none."""
        if not seek:
            return self
        return replace(
            self, nodes=tuple(node if node.seek else replace(node, seek=seek) for node in self.nodes)
        )

    def node(self, name: NodeId) -> NodeSpec:
        """Return the node of that name. Raises KeyError."""
        for node in self.nodes:
            if node.node == name:
                return node
        raise KeyError(name)
