"""The calls that other processes may make to the masters, as Protocols. Any call may raise MasterGone.

Live runs send them over sockets (`deploy.live.ray_cluster`); tests call the objects.
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
    """The JobTracker's reply, with the AttemptSpecs (JSON) of the attempts to launch by name."""

    reply: Reply
    specs: dict[str, dict[str, Any]] = field(default_factory=dict)


class JobTrackerDoor(Protocol):
    """TaskTrackers' calls to the JobTracker; `deploy.live.driver_door` adds those of a run's driver."""

    async def register(self, node: NodeSpec, incarnation: int) -> None:
        """Register the node `node` with the number `incarnation` of its current life."""
        ...

    async def heartbeat(self, heartbeat: Heartbeat) -> Answer:
        """Report a node. Return its actions, with the specifications of attempts to start."""
        ...


class NameNodeDoor(Protocol):
    """The calls to the NameNode: methods of `cluster.blocks.namenode.NameNode`, which adds the time itself."""

    # -- nodes -----------------------------------------------------------------------------------------------

    async def register(self, node: NodeId, rack: str, url: str, blocks: Sequence[Json]) -> None:
        """Register a node with its replicas: {"block", "length"}."""
        ...

    async def node_lost(self, node: NodeId) -> None:
        """Remove a node, and the records of all its replicas, from the NameNode."""
        ...

    async def heartbeat(self, node: NodeId) -> Rows:
        """Report that the node is alive. Return the NameNode's commands to the node's agent."""
        ...

    async def block_event(self, node: NodeId, event: str, block: str, length: int) -> None:
        """Report the change of a replica: `added`, `kept` (fetched by an attempt), `removed` or `corrupt`."""
        ...

    async def report_bad(self, block: str, node: NodeId) -> None:
        """Report that a reader found the node's replica of the block corrupt or missing."""
        ...

    async def keeps(self, node: NodeId, block: str, budget: float) -> Json:
        """Return {"keep": bool} for a fetched block. `budget` is a fraction of the size of all inputs."""
        ...

    async def note_reads(
        self, reading: dict[str, int], serving: dict[NodeId, tuple[float, int]], scheme: DynamicReplicas
    ) -> None:
        """Record the reads, by which `scheme` adapts inputs' numbers of replicas every `scheme.epoch_s`.

        `reading` maps paths to reading jobs, `serving` nodes to (requests in progress, slots).
        """
        ...

    # -- writing ---------------------------------------------------------------------------------------------

    async def create(self, path: str, replication: int, block_bytes: int = 0) -> None:
        """Create an incomplete empty file. `block_bytes` 0 means the cluster's. Raises PathExists."""
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
        """Add a block to a file, on `writer` if possible. Return {"block", "nodes"}. Raises NoNodes."""
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
        """Create an input file and choose its nodes: [{"block", "offset", "length", "nodes"}].

        `placement` is `hdfs`, `even`, or `skewed`, which uses the fraction `skew` of nodes. `preferred` lists
        nodes to choose first for each block.
        """
        ...

    async def input_uploaded(self, path: str, blocks: Sequence[Json] | None = None) -> None:
        """Complete an input, with the blocks of `plan_input` or `blocks`."""
        ...

    # -- the tree --------------------------------------------------------------------------------------------

    async def rename(self, src: str, dst: str) -> None:
        """Move a file or directory. Raises PathNotFound or PathExists."""
        ...

    async def delete(self, path: str, recursive: bool = False, for_good: bool = False) -> bool:
        """Delete an entry; return whether it existed. NotEmpty unless `recursive`. `for_good` refuses later writes."""
        ...

    async def mkdirs(self, path: str) -> None:
        """Create a directory and its missing parents."""
        ...

    async def concat(self, path: str, sources: Sequence[str]) -> None:
        """Append the blocks of the files `sources` to the file `path`, and remove the files `sources`."""
        ...

    async def set_attributes(self, path: str, attributes: Json) -> None:
        """Set owner, group, permission, accessed_s, modified_s or acl. Raises PathNotFound."""
        ...

    async def set_replication(self, path: str, replication: int) -> None:
        """Set the number of replicas of each block of a file. Raises PathNotFound or WrongKind."""
        ...

    # -- questions -------------------------------------------------------------------------------------------

    async def locate(self, path: str, offset: int = 0, length: int | None = None) -> Rows:
        """Return the blocks of a byte range (`length` None: to the end) with live good nodes."""
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
        """Choose a replica to harm among running nodes `up`, and `nodes`: (block, node), or None.

        `target` is a block or file. `luck`, from 0 to 1, selects among matches.
        """
        ...

    async def take_replica_changes(self) -> Sequence[tuple[str, Sequence[NodeId]]]:
        """Return (block, nodes) of input blocks whose replicas changed since the last call."""
        ...

    # -- the run ---------------------------------------------------------------------------------------------

    async def begin_clock(self, epoch_s: float) -> None:
        """Set the run's start to the Unix time `epoch_s`. Emulated times are seconds since this start."""
        ...

    async def time_of_day(self) -> float:
        """Return the current Unix time by the run's clock in the NameNode's process."""
        ...

    async def poll(self, cursor: int = 0) -> Json:
        """Return {"cursor", "rows"} of blocks.parquet after the last call's cursor (0: all)."""
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
    """Sends one call to the other process. Returns its result, or raises its exception."""

    def __call__(self, method: str, args: Sequence[Any], named: Mapping[str, Any]) -> Awaitable[Any]: ...


def calls_of(door: type[Any]) -> dict[str, FunctionType]:
    """Return the methods, also inherited ones, of a door (a Protocol of remote calls)."""
    return {
        name: member
        for each in door.__mro__
        for name, member in vars(each).items()
        if isinstance(member, FunctionType) and not name.startswith("_")
    }


def methods_of(door: type[Any]) -> list[str]:
    return list(calls_of(door))


def make_stub(door: type[Door], send: Send) -> Door:
    """Return an object with the methods of `door`, each of which makes a remote call by `send`."""

    def method(name: str) -> Method:
        async def call(*args: Any, **named: Any) -> Any:
            return await send(name, args, named)

        return call

    return cast(Door, SimpleNamespace(**{name: method(name) for name in methods_of(door)}))


def make_table(door: type[Door], service: Door) -> Mapping[str, Method]:
    """Return the methods of `service` that `door` has, so that remote callers can call no others."""
    return {name: getattr(service, name) for name in methods_of(door)}
