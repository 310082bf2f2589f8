"""What stands behind a simulated TaskTracker: the work of attempts on nodes, in virtual time.

The driver (`scheduler.simulate`) turns heartbeats' actions into these calls and carries what comes back.
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
    """What one task does, whoever runs it where; CPU in seconds on one emulated core.

    A map reads, computes `cpu_s`, spills `output_bytes` with `sort_cpu_s` (or writes them as a file in a map-only
    job). A reduce fetches its share of each map's output, merges with `sort_cpu_s`, computes `cpu_s` and writes
    `output_bytes`; without `merges` it does not read again what it had to put on disk. `partitions` are the bytes of
    each reduce's share of a map's output, None for equal shares. With `duration_s` the whole attempt takes that long
    on a node that holds its input (a reduce: from the moment that its last map output is there), and nothing
    contends; what it reads from elsewhere comes on top, and of a reduce `shuffle_s`, where a framework has that.
    While a reduce fetches it computes `fetch_cpu_s` for each map output and `fetched_byte_cpu_s` for each byte, where
    attempts contend. `core_speed` is the share of a host's core that one emulated core gets in these CPU times: work
    that is counted on the host takes longer on slower cores (`on_core`). None: the same on every core.
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
        """Return the cost on emulated cores of that share of a host's core."""
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
    """All that the emulation needs to know of an attempt.

    `blocks` are the input's blocks with the bytes read of each. `output` is the path written aside, None when
    the attempt's output is shuffled. `start_s` is the latency from the launch order to the first line of task
    code. With `fails_after` (a share of its work, 0 to 1) the attempt fails there with `failure`.
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
    """The block store, as far as attempts need it; the driver answers from its NameNode."""

    def holders(self, block: str) -> Sequence[NodeId]:
        """Live nodes with a good replica."""
        ...

    def allocate(self, now_s: float, node: NodeId, path: str, replication: int, length: int) -> list[NodeId]:
        """Return the nodes that one more block of the file goes to, the writer's first; empty when none can take it."""
        ...

    def written(self, now_s: float, node: NodeId, path: str, lengths: Sequence[int]) -> None:
        """The file that the attempt wrote is complete: its blocks, in the order of their allocation."""
        ...


class Emulation(Protocol):
    """The attempts of all nodes. Calls carry `now_s`, which never goes back."""

    def node_up(self, now_s: float, node: NodeSpec) -> None:
        """A node begins a life, with nothing on it."""
        ...

    def node_down(self, now_s: float, node: NodeId) -> None:
        """A node is gone: its attempts vanish without a report, transfers from and to it fail."""
        ...

    def set_rates(self, now_s: float, node: NodeId, cpu: float, disk: float, network: float) -> None:
        """The node has these shares of its declared rates from now on; a frozen one has 0."""
        ...

    def partition(self, now_s: float, groups: Sequence[Sequence[NodeId]]) -> None:
        """Only nodes of one group reach each other (those that are in none form one more); () ends it."""
        ...

    def disturb(self, now_s: float, delays: Mapping[NodeId, float], losses: Mapping[NodeId, float]) -> None:
        """From now on connections from and to these nodes come about so much later (s), or not (that share)."""
        ...

    def fill_disk(self, now_s: float, node: NodeId, full: bool) -> None:
        """From now on nothing can be written on the node, or again; attempts that have to, fail."""
        ...

    def launch(self, now_s: float, node: NodeId, plan: AttemptPlan) -> None:
        """An attempt starts."""
        ...

    def crash(self, now_s: float, node: NodeId, attempt: str) -> None:
        """An attempt's process dies by accident and is reported as failed; nothing happens when it has ended."""
        ...

    def kill(self, now_s: float, node: NodeId, attempt: str, reason: str) -> None:
        """An attempt is stopped and reported as killed; nothing happens when it has ended."""
        ...

    def map_outputs(self, now_s: float, node: NodeId, news: MapOutputs) -> None:
        """Tell the job's reduces on the node of its maps."""
        ...

    def forget_job(self, now_s: float, node: NodeId, job: str) -> None:
        """The job's map outputs on the node are deleted."""
        ...

    def next_s(self) -> float:
        """Return when something happens next; infinite when nothing does."""
        ...

    def advance(self, now_s: float) -> list[Happening]:
        """Return what has happened up to now and was not yet told, in order."""
        ...

    def statuses(self, now_s: float, node: NodeId) -> Sequence[AttemptStatus]:
        """Return the node's running attempts."""
        ...

    def usage(self, now_s: float, node: NodeId) -> Usage:
        """Return what the node used since it was last asked."""
        ...
