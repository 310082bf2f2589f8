"""The calls that other processes may make to the masters (JobTracker and NameNode), as typed Protocols.

In live runs calls go over Ray (`deploy.live.ray_cluster`); tests use plain objects. Any call may raise MasterGone.
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
    """The master could not be reached (it died, or is restarting). The call may be repeated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The JobTracker's reply to a heartbeat, with the specifications of the attempts to launch.

    `specs` holds the specifications as JSON values, by attempt name.
    """

    reply: Reply
    specs: dict[str, dict[str, Any]] = field(default_factory=dict)


class JobTrackerDoor(Protocol):
    """The calls that TaskTrackers make to the JobTracker.

    `deploy.live.driver_door` adds the calls that a run's driver makes.
    """

    async def register(self, node: NodeSpec, incarnation: int) -> None:
        """Register a node at the start of an incarnation."""
        ...

    async def heartbeat(self, beat: Heartbeat) -> Answer:
        """Send a node's report.

        Return the actions for the node, with the specifications of the attempts to start.
        """
        ...


class NameNodeDoor(Protocol):
    """The calls that TaskTrackers, the JobTracker, the loader, WebHDFS and the driver make to the NameNode.

    The methods are those of `cluster.blocks.namenode.NameNode` without the current time, which the NameNode's
    process adds.
    """

    # -- nodes -----------------------------------------------------------------------------------------------

    async def register(self, node: NodeId, rack: str, url: str, blocks: Sequence[Json]) -> None:
        """Register a node that holds exactly these blocks ({"block", "length"})."""
        ...

    async def node_lost(self, node: NodeId) -> None:
        """Remove a node with all its replicas."""
        ...

    async def heartbeat(self, node: NodeId) -> Rows:
        """Report that the node is alive. Return the NameNode's commands for the node's agent."""
        ...

    async def block_event(self, node: NodeId, event: str, block: str, length: int) -> None:
        """Record the `event` of a replica on the node: `added`, `kept`, `removed` or `corrupt`."""
        ...

    async def report_bad(self, block: str, node: NodeId) -> None:
        """Record that a reader found the node's replica of the block bad or missing."""
        ...

    async def keeps(self, node: NodeId, block: str, budget: float) -> Json:
        """Return {"keep": bool}: whether the node keeps a replica of a block that an attempt fetches.

        `budget` is the maximum size of all kept replicas, as a fraction of the size of all inputs.
        """
        ...

    async def note_reads(
        self, reading: dict[str, int], serving: dict[NodeId, tuple[float, int]], scheme: DynamicReplicas
    ) -> None:
        """Count the current readers of inputs.

        At the end of an epoch, set the number of replicas by `scheme`. `reading` holds the number of jobs by
        path. `serving` holds the requests and slots by node.
        """
        ...

    # -- writing ---------------------------------------------------------------------------------------------

    async def create(self, path: str, replication: int, block_bytes: int = 0) -> None:
        """Create an empty, incomplete file. Raises PathExists."""
        ...

    async def reopen(self, path: str) -> None:
        """Make a complete file incomplete, so that blocks can be added."""
        ...

    async def allocate(
        self,
        path: str,
        writer: NodeId | None,
        replication: int,
        length_hint: int = 0,
        exclude: Sequence[NodeId] = (),
    ) -> Json:
        """Return a new block of a file: {"block", "nodes"}. Raises NoNodes."""
        ...

    async def complete(self, path: str, blocks: Sequence[Json]) -> None:
        """Complete a file that consists of these blocks ({"block", "length", "nodes"}), in order."""
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
        """Return the planned blocks of an input and their nodes: [{"block", "offset", "length", "nodes"}].

        `lengths` are the blocks' lengths in bytes.
        """
        ...

    async def input_uploaded(self, path: str, blocks: Sequence[Json] | None = None) -> None:
        """Mark an input file as complete, with the planned blocks, or with `blocks` if given."""
        ...

    # -- the tree --------------------------------------------------------------------------------------------

    async def rename(self, src: str, dst: str) -> None:
        """Move a file or directory. Raises PathNotFound or PathExists."""
        ...

    async def delete(self, path: str, recursive: bool = False, for_good: bool = False) -> bool:
        """Delete a file or directory. Return False if there is none. Raises WrongKind.

        With `for_good`, later writes to the path are refused.
        """
        ...

    async def mkdirs(self, path: str) -> None:
        """Make a directory and its parents."""
        ...

    async def concat(self, path: str, sources: Sequence[str]) -> None:
        """Append the blocks of the files `sources` to a file, and remove the sources."""
        ...

    async def set_attributes(self, path: str, attributes: Json) -> None:
        """Set any of owner, group, permission, accessed_s, modified_s and acl. Raises PathNotFound."""
        ...

    async def set_replication(self, path: str, replication: int) -> None:
        """Set the number of replicas of each block of a file. Raises PathNotFound or WrongKind."""
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
        """Return {"length", "files", "directories", "space"} of a directory tree."""
        ...

    async def nodes(self) -> dict[NodeId, Json]:
        """Return the live nodes by name: {"rack", "url", "used_bytes", "blocks"}."""
        ...

    async def pick_replica(
        self, up: Sequence[NodeId], target: str, nodes: Sequence[NodeId], luck: float
    ) -> tuple[str, NodeId] | None:
        """Return a replica that a fault may harm, as block and node; None if there is none."""
        ...

    async def take_replica_changes(self) -> Sequence[tuple[str, Sequence[NodeId]]]:
        """Return the input blocks whose replicas changed since the last call, with the current holders."""
        ...

    # -- the run ---------------------------------------------------------------------------------------------

    async def begin_clock(self, epoch_s: float) -> None:
        """Set the run's start (Unix time), from which emulated time counts."""
        ...

    async def time_of_day(self) -> float:
        """Return the time of day (Unix time) by the clock of the run."""
        ...

    async def poll(self, cursor: int = 0) -> Json:
        """Return {"cursor", "rows"}: the rows of blocks.parquet after `cursor`, and the next cursor."""
        ...

    async def close(self) -> None:
        """Write the rows of blocks.parquet for all replicas that exist at the end of the run."""
        ...


class Masters(Protocol):
    """Access to the JobTracker and the NameNode from another process."""

    @property
    def job_tracker(self) -> JobTrackerDoor:
        """Return the object whose methods are the calls to the JobTracker."""
        ...

    @property
    def name_node(self) -> NameNodeDoor:
        """Return the object whose methods are the calls to the NameNode."""
        ...
