"""The doors of the two masters: what other processes may ask of JobTracker and NameNode, with types.

Live the doors lead over Ray (`deploy.live.ray_cluster`); tests use plain objects. Any call may raise MasterGone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from schedbed.cluster.messages import Heartbeat, Reply
from schedbed.cluster.spec import DynamicReplicas, NodeSpec
from schedbed.tasks.specs import NodeId

Json = dict[str, Any]
Rows = list[Json]


class MasterGone(Exception):
    """The master could not be reached (it died, or is just restarting): the call may be repeated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The JobTracker's reply with the specifications (JSON values) of the attempts it launches."""

    reply: Reply
    specs: dict[str, dict[str, Any]] = field(default_factory=dict)


class JobTrackerDoor(Protocol):
    """The JobTracker as TaskTrackers see it; the driver of a run sees more (`deploy.live.driver_door`)."""

    async def register(self, node: NodeSpec, incarnation: int) -> None:
        """Take in a node that begins a life."""
        ...

    async def heartbeat(self, beat: Heartbeat) -> Answer:
        """Return what the node must do, with the attempts' specifications."""
        ...


class NameNodeDoor(Protocol):
    """The NameNode as TaskTrackers, the JobTracker, the loader, WebHDFS and the driver see it.

    The methods are those of `cluster.blocks.namenode.NameNode` without the time, which the NameNode's side knows.
    """

    # -- nodes -----------------------------------------------------------------------------------------------

    async def register(self, node: NodeId, rack: str, url: str, blocks: Sequence[Json]) -> None:
        """Take in a node that lives and holds exactly these blocks ({"block", "length"})."""
        ...

    async def node_lost(self, node: NodeId) -> None:
        """Forget a node with all that it held."""
        ...

    async def heartbeat(self, node: NodeId) -> Rows:
        """Return what the node is to do as commands for its agent."""
        ...

    async def block_event(self, node: NodeId, event: str, block: str, length: int) -> None:
        """Note that a replica on the node was `added`, `kept` or `removed`, or found `corrupt`."""
        ...

    async def report_bad(self, block: str, node: NodeId) -> None:
        """Note that a reader found a replica bad or gone."""
        ...

    async def keeps(self, node: NodeId, block: str, budget: float) -> Json:
        """Return {"keep"}: whether a block that an attempt fetches shall stay on the attempt's node."""
        ...

    async def note_reads(
        self, reading: dict[str, int], serving: dict[NodeId, tuple[float, int]], scheme: DynamicReplicas
    ) -> None:
        """Count who reads inputs now: jobs by path, and by node its requests and slots (`cluster.spec`)."""
        ...

    # -- writing ---------------------------------------------------------------------------------------------

    async def create(self, path: str, replication: int, block_bytes: int = 0) -> None:
        """Make an empty file, still to be written. Raises PathExists."""
        ...

    async def reopen(self, path: str) -> None:
        """Let blocks be added to a finished file, until the file is completed again."""
        ...

    async def allocate(
        self,
        path: str,
        writer: NodeId | None,
        replication: int,
        length_hint: int = 0,
        exclude: Sequence[NodeId] = (),
    ) -> Json:
        """Return one more block of a file: {"block", "nodes"}. Raises NoNodes."""
        ...

    async def complete(self, path: str, blocks: Sequence[Json]) -> None:
        """Finish a file that consists of these blocks ({"block", "length", "nodes"}), in order."""
        ...

    async def plan_input(
        self,
        path: str,
        lengths: Sequence[int],
        replication: int,
        placement: str = "hdfs",
        preferred: Sequence[Sequence[NodeId]] | None = None,
        skew: float | None = None,
    ) -> Rows:
        """Return where an input's blocks are to be stored: [{"block", "offset", "length", "nodes"}]."""
        ...

    async def input_uploaded(self, path: str, blocks: Sequence[Json] | None = None) -> None:
        """Finish an input file, stored as planned or as `blocks` say."""
        ...

    # -- the tree --------------------------------------------------------------------------------------------

    async def rename(self, src: str, dst: str) -> None:
        """Move a file or directory. Raises PathNotFound or PathExists."""
        ...

    async def delete(self, path: str, recursive: bool = False, for_good: bool = False) -> bool:
        """Delete a file or directory; return False when there is none. Raises WrongKind."""
        ...

    async def mkdirs(self, path: str) -> None:
        """Make a directory and its parents."""
        ...

    # -- questions -------------------------------------------------------------------------------------------

    async def locate(self, path: str, offset: int = 0, length: int | None = None) -> Rows:
        """Return the blocks that overlap a byte range, with the live nodes that hold good replicas."""
        ...

    async def stat(self, path: str) -> Json:
        """Return the status of a file or directory. Raises PathNotFound."""
        ...

    async def list(self, path: str) -> Rows:
        """Return the status of each child by name, or of the file itself."""
        ...

    async def content_summary(self, path: str) -> Json:
        """Return {"length", "files", "directories", "space"} of a tree."""
        ...

    async def nodes(self) -> dict[NodeId, Json]:
        """Return the live nodes: {"rack", "url", "used_bytes", "blocks"}."""
        ...

    async def pick_replica(
        self, up: Sequence[NodeId], target: str, nodes: Sequence[NodeId], luck: float
    ) -> tuple[str, NodeId] | None:
        """Return a replica that a fault may harm, and the node that holds the replica."""
        ...

    async def take_replica_changes(self) -> Sequence[tuple[str, Sequence[NodeId]]]:
        """Return the input blocks whose replicas changed since the last call, with the nodes that hold them."""
        ...

    # -- the run ---------------------------------------------------------------------------------------------

    async def begin_clock(self, epoch_s: float) -> None:
        """Count time from the run's start (a time of day) from now on."""
        ...

    async def time_of_day(self) -> float:
        """Return the time of day (Unix) by the clock that the run counts with."""
        ...

    async def poll(self, cursor: int = 0) -> Json:
        """Return {"cursor", "rows"}: rows of blocks.parquet since a cursor."""
        ...

    async def close(self) -> None:
        """End the rows of all replicas that still live: the run is over."""
        ...


class Masters(Protocol):
    """The JobTracker and the NameNode as somewhere else."""

    @property
    def job_tracker(self) -> JobTrackerDoor:
        """Return the door of the JobTracker."""
        ...

    @property
    def name_node(self) -> NameNodeDoor:
        """Return the door of the NameNode."""
        ...
