"""The interface of simulated nodes, through which the driver (`scheduler.simulate`) runs attempts in virtual time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from schedbed.cluster.messages import AttemptReport, AttemptStatus, FetchFailure, MapOutputs, Usage
from schedbed.cluster.spec import NodeSpec
from schedbed.tasks.parts import Part
from schedbed.tasks.specs import NodeId, TaskKind, value


@value
class TaskCost:
    """The cost of one task, independent of its node. CPU times are in seconds on one emulated core.

    A map reads, computes for `cpu_s`, and writes `output_bytes` after sorting for `sort_cpu_s`, to the local
    disk or a map-only job's file. A reduce fetches, merges for `sort_cpu_s`, computes for `cpu_s`, and writes
    a file. Without `merges`, what a fetch wrote to disk is not read again. `partitions` are a map's bytes for
    each reduce; None: equal.

    `duration_s`, if given, is the duration without contention and with local input, for a reduce from the
    last map output on. Reads from other nodes, and a reduce's `shuffle_s`, are added.

    With contention, a reduce also computes `fetch_cpu_s` per map output and `fetched_byte_cpu_s` per byte.

    CPU times hold for a core of `core_speed`, a share of a host's core, and grow on slower ones (`on_core`);
    None: the same on every core.
    """

    cpu_s: float = 0.0
    sort_cpu_s: float = 0.0
    read_bytes: int = 0
    output_bytes: int = 0
    spill_bytes: int = 0
    partitions: tuple[int, ...] | None = None
    memory_peak_bytes: int = 0
    merges: bool = True
    duration_s: float | None = None
    shuffle_s: float | None = None
    fetch_cpu_s: float = 0.0
    fetched_byte_cpu_s: float = 0.0
    records_in: int = 0
    records_out: int = 0
    core_speed: float | None = None

    def on_core(self, core_speed: float) -> TaskCost:
        """Return the cost on emulated cores of speed `core_speed`, as a share of a host's core."""
        if self.core_speed is None:
            return self
        factor = self.core_speed / core_speed
        return replace(
            self,
            cpu_s=self.cpu_s * factor,
            sort_cpu_s=self.sort_cpu_s * factor,
            fetch_cpu_s=self.fetch_cpu_s * factor,
            fetched_byte_cpu_s=self.fetched_byte_cpu_s * factor,
            core_speed=core_speed,
        )


@value
class AttemptPlan:
    """The work of an attempt on a simulated node. `blocks` has the bytes read from each.

    `output` is None if reduces fetch it. `start_s` is the time from the launch to task code. With
    `fails_after`, the attempt fails after this share of its work for the reason `failure`.
    """

    attempt: str
    task: str
    job: str
    kind: TaskKind
    index: int
    maps: int  # of the job
    reduces: int  # of the job
    cost: TaskCost
    memory_bytes: int  # limit
    start_s: float = 0.0
    blocks: tuple[tuple[str, int], ...] = ()
    output: str | None = None
    replication: int = 1
    block_bytes: int = 0
    fails_after: float | None = None
    failure: str = ""


Happening = tuple[NodeId, AttemptReport | FetchFailure]


class Store(Protocol):
    """The operations of the block store that simulated attempts need, implemented by the driver."""

    def holders(self, block: str) -> Sequence[NodeId]:
        """Return the live nodes that store a good replica of a block."""
        ...

    def allocate(self, now_s: float, node: NodeId, path: str, replication: int, length: int) -> list[NodeId]:
        """Add a block to a file. Return its nodes, the writer's first, or none if none is available."""
        ...

    def written(self, now_s: float, node: NodeId, path: str, lengths: Sequence[int]) -> None:
        """Complete a file with the sizes of its blocks in the order of allocation."""
        ...


class Emulation(Protocol):
    """A simulation of the attempts on all nodes. The time `now_s` must not decrease from call to call."""

    def node_up(self, now_s: float, node: NodeSpec) -> None:
        """Start an incarnation (life) of a node. The node has no attempts and no map outputs at first."""
        ...

    def node_down(self, now_s: float, node: NodeId) -> None:
        """Remove a node, whose attempts end without a report. Transfers from and to the node fail."""
        ...

    def set_rates(self, now_s: float, node: NodeId, cpu: float, disk: float, network: float) -> None:
        """Set a node's current rates, as shares of its declared rates. All are 0 if the node is frozen."""
        ...

    def partition(self, now_s: float, groups: Sequence[Sequence[NodeId]]) -> None:
        """Let only nodes of one group connect; those in none form one. Empty `groups` remove the fault."""
        ...

    def disturb(self, now_s: float, delays: Mapping[NodeId, float], losses: Mapping[NodeId, float]) -> None:
        """Delay connections by seconds, and lose shares of them, by node."""
        ...

    def fill_disk(self, now_s: float, node: NodeId, full: bool) -> None:
        """Set whether a node's disk is full. Attempts that must write to a full disk fail."""
        ...

    def launch(self, now_s: float, node: NodeId, plan: AttemptPlan) -> None:
        """Start an attempt on a node, as described by its plan."""
        ...

    def crash(self, now_s: float, node: NodeId, attempt: str) -> None:
        """End an attempt as failed, as if its process had crashed. Do nothing if it has already ended."""
        ...

    def kill(self, now_s: float, node: NodeId, attempt: str, reason: str) -> None:
        """Kill an attempt for the given reason. Do nothing if the attempt has already ended."""
        ...

    def map_outputs(self, now_s: float, node: NodeId, news: MapOutputs) -> None:
        """Pass newly announced map outputs of a job to the reduces of the job on a node."""
        ...

    def forget_job(self, now_s: float, node: NodeId, job: str) -> None:
        """Delete all map outputs of a job on a node."""
        ...

    def next_s(self) -> float:
        """Return the time of the next event, or infinity if there is none."""
        ...

    def advance(self, now_s: float) -> list[Happening]:
        """Process all events until `now_s`. Return the new attempt reports and fetch failures, in order."""
        ...

    def statuses(self, now_s: float, node: NodeId) -> Sequence[AttemptStatus]:
        """Return the status of each running attempt on a node."""
        ...

    def usage(self, now_s: float, node: NodeId) -> Usage:
        """Return the use since the last call: bytes of memory, otherwise shares of declared rates."""
        ...


# The cost of a part of a map's input split, in proportion to the bytes of the part.


def part_cost(whole: TaskCost, part: Part) -> TaskCost:
    """Return the cost of a part of a split; parts add up, except that each needs the whole memory."""
    share, partitions, duration_s = part.share, whole.partitions, whole.duration_s
    return replace(
        whole,
        cpu_s=whole.cpu_s * share,
        sort_cpu_s=whole.sort_cpu_s * share,
        read_bytes=part.of(whole.read_bytes),
        output_bytes=part.of(whole.output_bytes),
        spill_bytes=part.of(whole.spill_bytes),
        partitions=None if partitions is None else tuple(map(part.of, partitions)),
        duration_s=None if duration_s is None else duration_s * share,
        records_in=part.of(whole.records_in),
        records_out=part.of(whole.records_out),
    )


# Network partitions, which prevent connections between groups of nodes.


class Partition:
    """A division by a network fault. Nodes in no group form one; without groups, all reach each other."""

    __slots__ = ("_group",)

    def __init__(self, groups: Sequence[Sequence[NodeId]] = ()) -> None:
        self._group = {node: number for number, group in enumerate(groups, 1) for node in group}

    def joins(self, one: NodeId, other: NodeId) -> bool:
        """Return whether two nodes can open new connections to each other: they must be in the same group."""
        group = self._group
        return not group or group.get(one, 0) == group.get(other, 0)


# Pauses and limits for repeated fetches by simulated attempts, equal to those of live attempts.

LOCATE_WAITS_S = (0.3, 1.0, 2.0)  # Pauses before another search for a block's replicas.
FAILURES_MAX = 30  # Failed fetches of one map's output before the reduce fails.
_RETRY_S = 0.25
_RETRY_MAX_S = 8.0


def retry_after_s(failures: int) -> float:
    """Return the pause before a map output is fetched again."""
    return min(_RETRY_MAX_S, _RETRY_S * 2 ** (failures - 1))
