"""The interface of simulated nodes, which run attempts in virtual time.

The driver (`scheduler.simulate`) calls this interface for the actions in heartbeat answers, and passes the
reports on to the JobTracker's core.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from schedbed.cluster.messages import AttemptReport, AttemptStatus, FetchFailure, MapOutputs, Usage
from schedbed.cluster.spec import NodeSpec
from schedbed.tasks.specs import NodeId, TaskKind


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCost:
    """The cost of one task, independent of its node. CPU times are in seconds on one emulated core.

    A map reads, computes `cpu_s`, spills `output_bytes` with `sort_cpu_s` (or writes them as a file in a
    map-only job). A reduce fetches its part of each map's output, merges with `sort_cpu_s`, computes `cpu_s`
    and writes `output_bytes`; without `merges`, data written to disk during the fetch are not read again.
    `partitions` are the sizes in bytes of each reduce's part of a map's output; None for equal parts.

    `duration_s`, if given, is the duration of the attempt without contention on a node with its input (for a
    reduce: from the moment that its last map output exists). The time for reading from other nodes is added,
    and for a reduce `shuffle_s`, if given.

    With contention, a reduce computes `fetch_cpu_s` for each map output and `fetched_byte_cpu_s` for each
    byte that it fetches.

    `core_speed` is the speed of the emulated core for which the CPU times hold, as a share of a host's core:
    work measured on the host takes longer on slower cores (`on_core`). None: the CPU times are the same on
    every core.
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
        """Return the cost on emulated cores with another speed, as a share of a host's core."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptPlan:
    """The plan of an attempt for a simulated node.

    `blocks` are the input's blocks with the number of bytes read from each block. `output` is the path
    written before the commit; None if the output is shuffled. `start_s` is the latency from the launch order
    to the first line of task code. An attempt with `fails_after` (a share of its work, from 0 to 1) fails at
    that point with the reason `failure`.
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
    """The operations of the block store that attempts need. The driver implements them with its NameNode."""

    def holders(self, block: str) -> Sequence[NodeId]:
        """Return the live nodes with a good replica of the block."""
        ...

    def allocate(self, now_s: float, node: NodeId, path: str, replication: int, length: int) -> list[NodeId]:
        """Return the nodes for the file's next block, the writer's node first; empty if none is available."""
        ...

    def written(self, now_s: float, node: NodeId, path: str, lengths: Sequence[int]) -> None:
        """Complete an attempt's file. `lengths` are the block sizes in the order of allocation."""
        ...


class Emulation(Protocol):
    """A simulation of the attempts of all nodes. `now_s` must never decrease from call to call."""

    def node_up(self, now_s: float, node: NodeSpec) -> None:
        """Start an incarnation of a node, without attempts and map outputs."""
        ...

    def node_down(self, now_s: float, node: NodeId) -> None:
        """Remove a node. Its attempts end without a report; transfers from and to the node fail."""
        ...

    def set_rates(self, now_s: float, node: NodeId, cpu: float, disk: float, network: float) -> None:
        """Set the node's current rates as shares of its declared rates; 0 if the node is frozen."""
        ...

    def partition(self, now_s: float, groups: Sequence[Sequence[NodeId]]) -> None:
        """Limit connections to nodes of the same group; () ends the partition.

        Nodes in no group form another group.
        """
        ...

    def disturb(self, now_s: float, delays: Mapping[NodeId, float], losses: Mapping[NodeId, float]) -> None:
        """Inject a fault: set connection delays (seconds) and shares of lost connections, by node."""
        ...

    def fill_disk(self, now_s: float, node: NodeId, full: bool) -> None:
        """Mark the node's disk as full, or as not full. Attempts that must write to a full disk fail."""
        ...

    def launch(self, now_s: float, node: NodeId, plan: AttemptPlan) -> None:
        """Start an attempt on the node."""
        ...

    def crash(self, now_s: float, node: NodeId, attempt: str) -> None:
        """End an attempt as failed, as if its process had crashed. Does nothing if it has ended."""
        ...

    def kill(self, now_s: float, node: NodeId, attempt: str, reason: str) -> None:
        """Kill an attempt. Does nothing if it has ended."""
        ...

    def map_outputs(self, now_s: float, node: NodeId, news: MapOutputs) -> None:
        """Pass newly announced map outputs to the job's reduces on the node."""
        ...

    def forget_job(self, now_s: float, node: NodeId, job: str) -> None:
        """Delete the job's map outputs on the node."""
        ...

    def next_s(self) -> float:
        """Return the time of the next event; infinity if there is none."""
        ...

    def advance(self, now_s: float) -> list[Happening]:
        """Process all events until `now_s`. Return the new attempt reports and fetch failures, in order."""
        ...

    def statuses(self, now_s: float, node: NodeId) -> Sequence[AttemptStatus]:
        """Return the status of each running attempt on the node."""
        ...

    def usage(self, now_s: float, node: NodeId) -> Usage:
        """Return the node's use of resources since the last call, as shares of the declared rates."""
        ...
