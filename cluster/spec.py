"""The description of a cluster: its nodes with their declared rates, its racks and its block settings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from schedbed.tasks.specs import NodeId

BY_HOST = "by-host"
"""The rack name of nodes that use their host as their rack."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSpec:
    """An emulated node and its declared rates. `_bps` means bytes per second.

    `core_speed` is the speed of a core as a fraction of a host core. `latency_s` is added to each message to
    or from the node, and the fraction `loss` of these messages is lost (`cluster.conditions.by_nature`). With
    n streams at the same time, the disk's total rate is `disk_bps` / (1 + `seek` x (n - 1)). Nodes with the
    same `shared_disk` share one disk. `paging` sets how much the disk slows down while the node's tasks
    declare more memory than the node has (`paging_factor`).
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
    host: str = ""  # the host on which a run over several hosts must place the node, "" for any
    seek: float = 0.0
    paging: float = 0.0
    shared_disk: str = ""  # the name of the disk, "" for a disk that is not shared
    foreground: tuple[tuple[float, float], ...] = ()
    """The foreground load: times of the run in seconds, ascending, each with the fraction of the CPU that
    other work takes before tasks from then on."""

    def __post_init__(self) -> None:
        """Convert the declared foreground loads to tuples, since values read from JSON are lists."""
        load = tuple((at_s, share) for at_s, share in self.foreground)
        object.__setattr__(self, "foreground", load)

    @property
    def cpu_rate(self) -> float:
        """Return the CPU rate of all cores of the node, in host core-seconds per second."""
        return self.cores * self.core_speed

    def free_cpu(self, now_s: float) -> float:
        """Return the fraction of the CPU that the declared foreground load (other programs) leaves to tasks.

        `now_s` is the time in seconds since the run's start.
        """
        left = 1.0
        for at_s, share in self.foreground:
            if at_s > now_s:
                break
            left = 1.0 - share
        return left

    def paging_factor(self, declared_bytes: int) -> float:
        """Return the factor by which paging slows the disk while tasks declare `declared_bytes` of memory.

        The factor is 1 + `paging` x excess, with excess = declared / memory - 1, and 1 if the memory
        suffices. The model: memory in excess is written to the disk and read back as tasks alternate. For
        each byte that tasks read or write, the disk also transfers `paging` x excess bytes of memory, so
        tasks have 1 / (1 + `paging` x excess) of the disk's rate.
        """
        if not self.paging or declared_bytes <= self.memory_bytes:
            return 1.0
        return 1.0 + self.paging * (declared_bytes / self.memory_bytes - 1.0)

    def on_host(self, speed: float) -> NodeSpec:
        """Return a copy of the node for a host whose cores are `speed` times as fast as the slowest host's.

        `core_speed` is divided by `speed`, so the emulated cores are equally fast on each host.
        """
        return self if speed == 1 else replace(self, core_speed=self.core_speed / speed)

    def stretched(self, stretch: float) -> NodeSpec:
        """Return a copy of the node with rates per real second instead of rates per emulated second.

        An emulated second lasts `stretch` real seconds, so each rate is divided by `stretch`.
        """
        if stretch == 1:
            return self
        return replace(
            self,
            core_speed=self.core_speed / stretch,
            disk_bps=self.disk_bps / stretch,
            network_bps=self.network_bps / stretch,
        )


def shared_disks(nodes: Iterable[NodeSpec]) -> dict[str, NodeSpec]:
    """Return a dictionary from the name of each shared disk to the first node that uses the disk."""
    found: dict[str, NodeSpec] = {}
    for node in nodes:
        if node.shared_disk:
            found.setdefault(node.shared_disk, node)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkRates:
    """Rates of the links between racks in bytes per second. None means that a link is not limited.

    `up_bps` limits the traffic from all nodes of a rack to other racks, and `down_bps` the traffic in the
    other direction. `core_bps` limits all traffic between racks.
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
    """The settings of a scheme that changes the number of replicas of each input every `epoch_s` seconds.

    `scheme` is `scarlett` or `cdrm`. Under Scarlett, the number of an input's replicas is `delta` plus the
    largest number of jobs that read the input at the same time, but not less than without the scheme. All
    additional replicas use at most the fraction `budget` of the size of all inputs. Under CDRM, an input has
    enough replicas to be available with the probability `availability`, if each node is unavailable with the
    probability `failure`.
    """

    scheme: str
    epoch_s: float = 60.0
    delta: int = 1
    budget: float = 0.2
    availability: float = 0.99
    failure: float = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockSettings:
    """The size and placement of blocks.

    `skew` is the fraction of nodes that hold all blocks under the placement `skewed`. When a map fetches its
    block from another node, the map's node keeps a replica with the probability `keep_share` (the replication
    scheme DARE). All replicas kept in this way use at most the fraction `keep_budget` of the size of all
    inputs with their replicas.
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
    """All nodes of a cluster, with the settings that they share.

    Rates are per emulated second, and `heartbeat_s` is in emulated seconds. In a live run, an emulated second
    lasts `stretch` real seconds. `limits` selects how live nodes are limited: auto, cgroup, software or off.
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
        """Return a copy of the cluster with `links` as the rates of the links between racks."""
        return replace(
            self, uplink_bps=links.up_bps, downlink_bps=links.down_bps, core_switch_bps=links.core_bps
        )

    def with_seek(self, seek: float) -> ClusterSpec:
        """Return a copy of the cluster with `seek` set on all nodes whose own `seek` is 0.

        `seek` sets how much parallel streams slow down a disk (`NodeSpec`).
        """
        if not seek:
            return self
        return replace(
            self, nodes=tuple(node if node.seek else replace(node, seek=seek) for node in self.nodes)
        )

    def node(self, name: NodeId) -> NodeSpec:
        """Return the node with this name. Raises KeyError if there is none."""
        for node in self.nodes:
            if node.node == name:
                return node
        raise KeyError(name)
