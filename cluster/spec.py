"""The description of a cluster: its nodes with their declared rates, its racks and its block settings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from schedbed.tasks.specs import NodeId, TaskKind

BY_HOST = "by-host"
"""The rack name of nodes that use their host as their rack."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSpec:
    """An emulated node and its declared rates. `_bps` means bytes per second.

    `core_speed` is a fraction of a host core. `latency_s` delays each message of the node, of which the
    fraction `loss` is lost. n streams together get `disk_bps` / (1 + `seek` x (n - 1)). Nodes with the same
    `shared_disk` share one disk. `paging` slows the disk while tasks declare too much memory
    (`paging_factor`).
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
    idle_watts: float = 0.0  # power without work
    busy_watts: float = 0.0  # power with all cores in use
    foreground: tuple[tuple[float, float], ...] = ()
    """The foreground load: times of the run in seconds, ascending, each with the fraction of the CPU that
    other work takes before tasks from then on."""

    def __post_init__(self) -> None:
        """Convert the foreground loads to tuples, since JSON has lists."""
        load = tuple((at_s, share) for at_s, share in self.foreground)
        object.__setattr__(self, "foreground", load)

    def slots(self, kind: TaskKind) -> int:
        """Return the node's number of slots for maps or for reduces."""
        return self.map_slots if kind is TaskKind.MAP else self.reduce_slots

    @property
    def cpu_rate(self) -> float:
        """Return the host core-seconds per second of all cores."""
        return self.cores * self.core_speed

    def free_cpu(self, now_s: float) -> float:
        """Return the fraction of the CPU that the declared load of other programs leaves at `now_s`."""
        left = 1.0
        for at_s, share in self.foreground:
            if at_s > now_s:
                break
            left = 1.0 - share
        return left

    def paging_factor(self, declared_bytes: int) -> float:
        """Return 1 + `paging` x excess, by which paging slows the disk; excess = declared / memory - 1, at
        least 0.

        The model: for each byte of tasks, the disk also transfers `paging` x excess bytes of memory, written
        and read back as tasks alternate.
        """
        if not self.paging or declared_bytes <= self.memory_bytes:
            return 1.0
        return 1.0 + self.paging * (declared_bytes / self.memory_bytes - 1.0)

    def on_host(self, speed: float) -> NodeSpec:
        """Return the node for a host `speed` times as fast as the slowest; emulated cores stay equally fast."""
        return self if speed == 1 else replace(self, core_speed=self.core_speed / speed)

    def stretched(self, stretch: float) -> NodeSpec:
        """Return the node with rates per real second, of which an emulated one has `stretch`."""
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
    """Rates of links in bytes per second: from a rack, to a rack, and between all racks. None is no limit."""

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
    """A scheme that changes inputs' numbers of replicas every `epoch_s`: `scarlett` or `cdrm`.

    Scarlett wants `delta` more replicas than jobs read the input at once, not fewer than without it; the
    additional ones use at most the fraction `budget` of all inputs. CDRM wants an input available with
    probability `availability`, if a node is unavailable with probability `failure`.
    """

    scheme: str
    epoch_s: float = 60.0
    delta: int = 1
    budget: float = 0.2
    availability: float = 0.99
    failure: float = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockSettings:
    """The size and placement of blocks. `skew` is the fraction of nodes used by the placement `skewed`.

    DARE: a map's node keeps a block that it fetched with probability `keep_share`; all of these use at most
    the fraction `keep_budget` of all inputs with their replicas.
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
    """All nodes of a cluster, with shared settings, per emulated second. `limits` is auto, cgroup, software or off."""

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
        return LinkRates(up_bps=self.uplink_bps, down_bps=self.downlink_bps, core_bps=self.core_switch_bps)

    def with_links(self, links: LinkRates) -> ClusterSpec:
        """Return a copy of the cluster with `links` as the rates of the links between racks."""
        return replace(
            self, uplink_bps=links.up_bps, downlink_bps=links.down_bps, core_switch_bps=links.core_bps
        )

    def with_seek(self, seek: float) -> ClusterSpec:
        """Return the cluster with `seek` on all nodes without one of their own."""
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
