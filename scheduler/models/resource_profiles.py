"""Resource profiles of the policy RAS: the resources of a node that the tasks of a job use in each phase
(polo2011 3.6, Table 2).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from schedbed.cluster.spec import NodeSpec
from schedbed.scheduler.view import AttemptView
from schedbed.tasks.specs import JobSpec

RESOURCES = "resources"
"""Kind of these profiles in the profile store."""

FULL = 100.0
"""The capacity of a node for each resource, in percent."""

PARALLEL_COPIES = 4
"""Largest number of parallel fetches of a reduce, unless its profile gives another number."""


class Amounts(NamedTuple):
    """Amounts of a node's resources, usually in percent of the node: CPU, disk rate (I/O), memory, network.

    The paper's resources are the first three (Table 2). Without a measured or given value, network counts as 0.
    """

    cpu: float = 0.0
    io: float = 0.0
    memory: float = 0.0
    network: float = 0.0

    def plus(self, other: Amounts, times: float = 1) -> Amounts:
        return Amounts(
            self.cpu + times * other.cpu,
            self.io + times * other.io,
            self.memory + times * other.memory,
            self.network + times * other.network,
        )

    @property
    def moving(self) -> Amounts:
        """Return only what a fetch of map output takes: I/O and network."""
        return Amounts(io=self.io, network=self.network)


NOTHING = Amounts()


class NodeDemands(NamedTuple):
    """A task's demands on one kind of node by phase, in percent.

    `shuffle` has the I/O and network of one of `copies` fetches.
    """

    map: Amounts
    shuffle: Amounts
    reduce: Amounts
    copies: int

    def of_capacity(self, capacity: float) -> NodeDemands:
        """Return the demands in percent of what tasks may use: `capacity` percent of each resource, but all memory."""
        share = FULL / capacity
        factors = Amounts(share, share, 1.0, share)
        return NodeDemands(
            _times(self.map, factors),
            _times(self.shuffle, factors),
            _times(self.reduce, factors),
            self.copies,
        )

    def shuffling(self, maps: int) -> Amounts:
        """Return a reduce's demand in its shuffle, with `maps` of the job placed."""
        return self.shuffle.plus(self.shuffle.moving, min(maps, self.copies) - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceProfile:
    """A job's demands by phase, in percent of one node, with `parallel_copies` fetches of a reduce.

    `map_s` is a map's mean with `scale` 1, or None. `node` is the profiled node's capacity (CPU in host
    cores, disk in bytes/s, memory in bytes, network in bytes/s, 0 if unknown); None: any node.
    """

    map: Amounts = NOTHING
    shuffle: Amounts = NOTHING
    reduce: Amounts = NOTHING
    parallel_copies: int = PARALLEL_COPIES
    map_s: float | None = None
    node: Amounts | None = None

    def on(self, spec: NodeSpec) -> NodeDemands:
        """Return the job's demands on a node with the given spec, at most 100% of the node for each resource."""
        factors = Amounts(1.0, 1.0, 1.0, 1.0) if self.node is None else _ratio(self.node, rates_of(spec))
        shuffle, most = _times(self.shuffle, factors), FULL / self.parallel_copies
        return NodeDemands(
            map=_times(self.map, factors),
            shuffle=shuffle._replace(io=min(shuffle.io, most), network=min(shuffle.network, most)),
            reduce=_times(self.reduce, factors),
            copies=self.parallel_copies,
        )

    def at_scale(self, scale: float) -> ResourceProfile:
        """Return the profile for a scenario whose durations are multiplied by `scale`: only `map_s` changes."""
        return self if self.map_s is None else replace(self, map_s=self.map_s * scale)

    def to_values(self) -> dict[str, Any]:
        """Return the profile as a dictionary of JSON values, which `read_profile` converts back."""
        values: dict[str, Any] = {
            phase: getattr(self, phase)._asdict() for phase in ("map", "shuffle", "reduce")
        }
        node = None if self.node is None else self.node._asdict()
        return values | {"parallel_copies": self.parallel_copies, "map_s": self.map_s, "node": node}


class MapUse:
    """The CPU, disk and network that a job's first maps used, from which its profile is learned online (polo2011 3.6).

    The paper profiles jobs beforehand, in a sandbox, and names an online profiler for jobs whose use is not known.
    """

    __slots__ = ("_cpu_s", "_elapsed_s", "_moved_bytes", "_received_bytes", "maps")

    def __init__(self) -> None:
        self.maps = 0
        self._cpu_s = self._moved_bytes = self._received_bytes = self._elapsed_s = 0.0

    def add(self, attempt: AttemptView, elapsed_s: float) -> None:
        """Add a successful map, which took `elapsed_s`."""
        self.maps += 1
        self._cpu_s += attempt.counters.cpu_s
        self._moved_bytes += attempt.counters.moved_bytes
        self._received_bytes += attempt.counters.read_remote_bytes
        self._elapsed_s += elapsed_s

    def on(self, job: JobSpec, spec: NodeSpec) -> NodeDemands:
        """Return the demands on a node: CPU, I/O and network of a map as used, all others as declared."""
        declared, elapsed_s = declared_demands(job, spec), max(1e-9, self._elapsed_s)
        cpu = FULL * self._cpu_s / elapsed_s / spec.cpu_rate
        io = FULL * self._moved_bytes / elapsed_s / spec.disk_bps
        network = FULL * self._received_bytes / elapsed_s / spec.network_bps
        used = Amounts(min(FULL, cpu), min(FULL, io), declared.map.memory, min(FULL, network))
        return declared._replace(map=used)


def rates_of(spec: NodeSpec) -> Amounts:
    """Return the capacity: CPU in host cores, disk in bytes/s, memory in bytes, network in bytes/s."""
    return Amounts(spec.cpu_rate, spec.disk_bps, float(spec.memory_bytes), spec.network_bps)


def declared_demands(job: JobSpec, spec: NodeSpec) -> NodeDemands:
    """Return demands by declared vcores and memory, without I/O. A shuffle mostly waits: memory only."""
    map_, reduce = (
        Amounts(
            min(FULL, FULL * demand.vcores / spec.cores),
            0.0,
            min(FULL, FULL * demand.memory_bytes / spec.memory_bytes),
        )
        for demand in (job.map_demand, job.reduce_demand)
    )
    return NodeDemands(map=map_, shuffle=Amounts(memory=reduce.memory), reduce=reduce, copies=PARALLEL_COPIES)


def read_profile(values: Mapping[str, Any]) -> ResourceProfile:
    """Return the profile of a user's or the store's values. Raises ValueError."""
    known = dict(values)
    node = known.pop("node", None)
    made: dict[str, Any] = {
        phase: _amounts(phase, known.pop(phase, {}), FULL) for phase in ("map", "shuffle", "reduce")
    }
    made["parallel_copies"] = copies = known.pop("parallel_copies", PARALLEL_COPIES)
    made["map_s"] = map_s = known.pop("map_s", None)
    if known:
        expected = "map, shuffle, reduce, parallel_copies, map_s or node"
        raise ValueError(f"{next(iter(known))!r} is unknown, expected {expected}")
    if isinstance(copies, bool) or not isinstance(copies, int) or copies < 1:
        raise ValueError(f"parallel_copies: {copies!r} is not a whole number above 0")
    if map_s is not None and not _is_number(map_s):
        raise ValueError(f"map_s: {map_s!r} is not a number of seconds")
    if node is not None:
        made["node"] = _amounts("node", node, float("inf"))
        if not all(made["node"][:3]):
            raise ValueError("node: cpu, io and memory must all be above 0")
    return ResourceProfile(**made)


def _amounts(name: str, raw: object, most: float) -> Amounts:
    if not isinstance(raw, Mapping) or not all(key in Amounts._fields for key in raw):
        raise ValueError(f"{name}: {raw!r} is not a mapping of cpu, io, memory and network")
    for key, value in raw.items():
        if not _is_number(value) or value > most:
            raise ValueError(f"{name}: {key}: {value!r} is not from 0 to {most:g}")
    return Amounts(**{key: float(value) for key, value in raw.items()})


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


def _ratio(above: Amounts, below: Amounts) -> Amounts:
    network = above.network / below.network if above.network else 1.0
    return Amounts(above.cpu / below.cpu, above.io / below.io, above.memory / below.memory, network)


def _times(amounts: Amounts, factors: Amounts) -> Amounts:
    return Amounts(*(min(FULL, amount * factor) for amount, factor in zip(amounts, factors, strict=True)))
