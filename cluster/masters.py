"""The calls that other processes may make to the masters (JobTracker and NameNode), as typed Protocols.

In live runs, calls are sent over sockets (`deploy.live.ray_cluster`); tests call the masters' objects
directly. Any call may raise MasterGone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import FunctionType, SimpleNamespace
from typing import Any, Protocol, TypeVar, cast

from schedbed.cluster.messages import Heartbeat, Reply
from schedbed.cluster.spec import DynamicReplicas, NodeSpec
from schedbed.tasks.specs import NodeId

Json = dict[str, Any]
Rows = list[Json]


class MasterGone(Exception):
    """The master could not be reached, because it died or is restarting. The caller may repeat the call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The JobTracker's reply to a heartbeat, with the specifications of the attempts to launch.

    `specs` maps each attempt's name to its specification (an AttemptSpec in JSON form).
    """

    reply: Reply
    specs: dict[str, dict[str, Any]] = field(default_factory=dict)


class JobTrackerDoor(Protocol):
    """The calls that TaskTrackers make to the JobTracker.

    `deploy.live.driver_door` adds the calls that a run's driver makes.
    """

    async def register(self, node: NodeSpec, incarnation: int) -> None:
        """Register the node `node` with the number `incarnation` of its current life."""
        ...

    async def heartbeat(self, heartbeat: Heartbeat) -> Answer:
        """Send the report of a node to the JobTracker.

        Return the actions for the node, with the specifications of the attempts to start.
        """
        ...


class NameNodeDoor(Protocol):
    """The calls that TaskTrackers, the JobTracker, the loader, WebHDFS and the driver make to the NameNode.

    The methods are those of `cluster.blocks.namenode.NameNode`, without the argument for the current time,
    which the process of the NameNode adds.
    """

    # -- nodes -----------------------------------------------------------------------------------------------

    async def register(self, node: NodeId, rack: str, url: str, blocks: Sequence[Json]) -> None:
        """Register a node with its rack and its agent's URL.

        `blocks` lists the replicas that the node stores. Each entry is a dictionary with the block's name and
        its length in bytes: {"block", "length"}.
        """
        ...

    async def node_lost(self, node: NodeId) -> None:
        """Remove a node, and the records of all its replicas, from the NameNode."""
        ...

    async def heartbeat(self, node: NodeId) -> Rows:
        """Report that the node is alive. Return the NameNode's commands to the node's agent."""
        ...

    async def block_event(self, node: NodeId, event: str, block: str, length: int) -> None:
        """Report a change of the node's replica of a block: `added`, `kept`, `removed` or `corrupt`.

        A `kept` replica was made from data that an attempt fetched. `length` is in bytes.
        """
        ...

    async def report_bad(self, block: str, node: NodeId) -> None:
        """Report that a reader found the node's replica of the block corrupt or missing."""
        ...

    async def keeps(self, node: NodeId, block: str, budget: float) -> Json:
        """Return {"keep": bool}: whether the node should keep a replica of a block that an attempt fetches.

        `budget` limits the total size of such replicas, as a fraction of the size of all inputs.
        """
        ...

    async def note_reads(
        self, reading: dict[str, int], serving: dict[NodeId, tuple[float, int]], scheme: DynamicReplicas
    ) -> None:
        """Record which inputs are read now, so that `scheme` can adapt the number of replicas of each input.

        `reading` maps each input's path to the number of jobs that read it. `serving` maps each node to
        (number of read requests in progress, number of slots). The NameNode changes the numbers of replicas
        every `scheme.epoch_s` seconds.
        """
        ...

    # -- writing ---------------------------------------------------------------------------------------------

    async def create(self, path: str, replication: int, block_bytes: int = 0) -> None:
        """Create an empty file that is not complete yet. Raises PathExists.

        `replication` is the number of replicas of each block. `block_bytes` is the file's block size in
        bytes; 0 means the cluster's block size.
        """
        ...

    async def reopen(self, path: str) -> None:
        """Change a complete file to incomplete, so that blocks can be added."""
        ...

    async def allocate(
        self,
        path: str,
        writer: NodeId | None,
        replication: int,
        length_hint: int = 0,
        exclude: Sequence[NodeId] = (),
    ) -> Json:
        """Add a block to a file and choose the nodes that will store the block. Return {"block", "nodes"}.

        The node `writer`, which writes the block, is preferred. `replication` is the number of replicas, and
        `length_hint` the expected length in bytes. The nodes in `exclude` are not chosen. Raises NoNodes.
        """
        ...

    async def complete(self, path: str, blocks: Sequence[Json]) -> None:
        """Mark a file as complete. `blocks` lists all its blocks in order: {"block", "length", "nodes"}."""
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
        """Create an input file and choose the nodes of its blocks: [{"block", "offset", "length", "nodes"}].

        `lengths` are the blocks' lengths in bytes, and `replication` is the number of replicas of each block.
        `placement` is `hdfs` (as in Hadoop), `even`, or `skewed`, which uses only the fraction `skew` of the
        nodes. `preferred` lists for each block the nodes to choose first.
        """
        ...

    async def input_uploaded(self, path: str, blocks: Sequence[Json] | None = None) -> None:
        """Mark the input file `path` as complete.

        Its blocks are those that `plan_input` chose, or `blocks` if given.
        """
        ...

    # -- the tree --------------------------------------------------------------------------------------------

    async def rename(self, src: str, dst: str) -> None:
        """Move a file or directory. Raises PathNotFound or PathExists."""
        ...

    async def delete(self, path: str, recursive: bool = False, for_good: bool = False) -> bool:
        """Delete a file or directory. Return False if the path does not exist.

        Raises NotEmpty for a directory with entries unless `recursive` is set. With `for_good`, the NameNode
        refuses later writes to the path.
        """
        ...

    async def mkdirs(self, path: str) -> None:
        """Create a directory and its missing parents."""
        ...

    async def concat(self, path: str, sources: Sequence[str]) -> None:
        """Append the blocks of the files `sources` to the file `path`, and remove the files `sources`."""
        ...

    async def set_attributes(self, path: str, attributes: Json) -> None:
        """Set attributes of a file or directory. Raises PathNotFound.

        `attributes` can contain owner, group, permission, accessed_s, modified_s and acl.
        """
        ...

    async def set_replication(self, path: str, replication: int) -> None:
        """Set the number of replicas of each block of a file. Raises PathNotFound or WrongKind."""
        ...

    # -- questions -------------------------------------------------------------------------------------------

    async def locate(self, path: str, offset: int = 0, length: int | None = None) -> Rows:
        """Return the blocks that overlap a byte range of a file, with the live nodes that hold good replicas.

        The range begins at `offset` and has `length` bytes, or extends to the file's end if `length` is None.
        """
        ...

    async def stat(self, path: str) -> Json:
        """Return the status of a file or directory. Raises PathNotFound."""
        ...

    async def list(self, path: str) -> Rows:
        """Return the status of each entry of a directory, sorted by name, or the status of a file itself."""
        ...

    async def content_summary(self, path: str) -> Json:
        """Return {"length", "files", "directories", "space"}, summed over a directory and all its entries."""
        ...

    async def nodes(self) -> dict[NodeId, Json]:
        """Return a dictionary from the name of each live node to {"rack", "url", "used_bytes", "blocks"}."""
        ...

    async def pick_replica(
        self, up: Sequence[NodeId], target: str, nodes: Sequence[NodeId], luck: float
    ) -> tuple[str, NodeId] | None:
        """Choose the replica that a fault will harm.

        Return its block and node, or None if no replica matches. `up` are the running nodes. `target` is the
        name of a block or file, and `nodes` are the nodes to choose from. If several replicas match, `luck`,
        a number from 0 to 1, selects one.
        """
        ...

    async def take_replica_changes(self) -> Sequence[tuple[str, Sequence[NodeId]]]:
        """Return the input blocks whose replicas changed since the last call.

        Each item of the result is (block, the nodes that now hold a replica).
        """
        ...

    # -- the run ---------------------------------------------------------------------------------------------

    async def begin_clock(self, epoch_s: float) -> None:
        """Set the run's start to the Unix time `epoch_s`. Emulated times are seconds since this start."""
        ...

    async def time_of_day(self) -> float:
        """Return the current Unix time by the run's clock in the NameNode's process."""
        ...

    async def poll(self, cursor: int = 0) -> Json:
        """Return {"cursor", "rows"}: new rows of blocks.parquet, and the cursor for the next call.

        `cursor` is the cursor that the last call returned. With 0, all rows are returned.
        """
        ...

    async def close(self) -> None:
        """Add the rows of blocks.parquet for the replicas that still exist at the run's end."""
        ...


class Masters(Protocol):
    """Access to the JobTracker and the NameNode from another process, through typed remote calls."""

    @property
    def job_tracker(self) -> JobTrackerDoor:
        """Return the object whose methods are the calls to the JobTracker."""
        ...

    @property
    def name_node(self) -> NameNodeDoor:
        """Return the object whose methods are the calls to the NameNode."""
        ...


# Remote calls between two processes. A "door" is a Protocol that lists the calls.
#
# The calling process uses a stub, an object whose methods send the calls. The serving process uses a table
# from method name to function. The Protocol is the only definition of the calls: pyright checks the callers
# against it, and the table has only the methods that the Protocol lists.

Door = TypeVar("Door")
Method = Callable[..., Awaitable[Any]]


class Send(Protocol):
    """The type of a function that sends one call to the other process.

    The function returns the result of the call, or raises the exception that the other process raised.
    """

    def __call__(self, method: str, args: Sequence[Any], named: Mapping[str, Any]) -> Awaitable[Any]:
        """Call the remote method `method` with positional arguments `args` and keyword arguments `named`."""
        ...


def calls_of(door: type[Any]) -> dict[str, FunctionType]:
    """Return a dictionary from name to function for the methods of a door (a Protocol of remote calls).

    Inherited methods are included.
    """
    return {
        name: member
        for each in door.__mro__
        for name, member in vars(each).items()
        if isinstance(member, FunctionType) and not name.startswith("_")
    }


def methods_of(door: type[Any]) -> list[str]:
    """Return the names of the methods of a door (a Protocol of remote calls)."""
    return list(calls_of(door))


def make_stub(door: type[Door], send: Send) -> Door:
    """Return an object with the methods of `door`, a Protocol of remote calls.

    Each method makes a remote call: it passes its name and arguments to `send`.
    """

    def method(name: str) -> Method:
        async def call(*args: Any, **named: Any) -> Any:
            return await send(name, args, named)

        return call

    return cast(Door, SimpleNamespace(**{name: method(name) for name in methods_of(door)}))


def make_table(door: type[Door], service: Door) -> Mapping[str, Method]:
    """Return a dictionary from method name to method of `service`, with only the methods of `door`.

    `door` is a Protocol of remote calls. Remote callers can thus call no other method of `service`.
    """
    return {name: getattr(service, name) for name in methods_of(door)}
