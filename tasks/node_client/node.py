"""The services of a node for attempts: files, map outputs, and the disk budget. `HttpNode` is the
implementation for live runs.
"""

from __future__ import annotations

import contextlib
import errno
import http.client
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlencode

from schedbed.tasks.attempt_status import Meter
from schedbed.tasks.blockfile import Buffer, CorruptBlock, Piece, read_verified
from schedbed.tasks.chance import chance
from schedbed.tasks.context import FULL_DISK, NodeContext
from schedbed.tasks.node_client.http_requests import AgentLink, Charge, Refused
from schedbed.tasks.node_client.read_aside import BlockCalls, KeptCopy
from schedbed.tasks.pacing import Budget
from schedbed.tasks.specs import AttemptSpec, BlockRange, NodeId


class FetchFailed(Exception):
    """Raised if a map's output could not be fetched from its node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MapOutputAt:
    """The location of a map's output. `lost` means that a new attempt will replace it.

    `after`, for a later part of a split that DTSS has cut, is the map whose records precede these in the
    input.
    """

    index: int
    attempt: str
    node: NodeId
    lost: bool = False
    after: int | None = None

    @property
    def place(self) -> tuple[int, int]:
        """Return a key that sorts outputs by their records' position in the input."""
        return (self.index if self.after is None else self.after, self.index)


class Output(Protocol):
    """A file of the block store that an attempt is writing."""

    def write(self, data: Buffer) -> None:
        """Append data to the file."""
        ...

    def close(self) -> None:
        """Complete the file. Readers never see a file that is not closed."""
        ...


class AttemptNode(Protocol):
    """A node's services for attempts. `HttpNode` implements them live; tests use simple objects."""

    meter: Meter

    def read(self, file: str, start: int, end: int) -> Iterator[Piece]:
        """Yield the bytes [start, end) of a file of the block store, in pieces."""
        ...

    def create(self, path: str, replication: int, block_bytes: int) -> Output:
        """Create a file of the block store for writing."""
        ...

    def map_outputs(self, cursor: int) -> tuple[int, list[MapOutputAt], bool]:
        """Return the job's map outputs after position `cursor` of the announcements.

        The tuple is the next cursor, the outputs, and whether all maps are done.
        """
        ...

    def fetch(self, output: MapOutputAt, partition: int) -> Buffer:
        """Return one partition of a map's output. Raises FetchFailed if the map's node does not deliver it."""
        ...

    def fetch_failed(self, map_attempt: str) -> None:
        """Report to the JobTracker that the output of a map attempt cannot be fetched."""
        ...

    def disk_stream(self) -> Charge:
        """Return a function that charges a local file's bytes to the disk budget, and sleeps by its rate."""
        ...

    def need_room(self) -> None:
        """Raise OSError (ENOSPC) if the node's disk is full."""
        ...


class HttpNode:
    """The node of a live attempt: its disk is accessed directly, everything else by HTTP to agents."""

    def __init__(self, spec: AttemptSpec, context: NodeContext) -> None:
        self.meter = Meter()
        self._spec = spec
        self._context = context
        self._link = AgentLink(context)
        self._reader = BlockReader(spec, self._link, self.meter)
        self._full_disk = str(context.root / FULL_DISK)

    def read(self, file: str, start: int, end: int) -> Iterator[Piece]:
        """Yield verified bytes [start, end) from the nearest good replica. Raises OSError without any."""
        return self._reader.read(file, start, end)

    def create(self, path: str, replication: int, block_bytes: int) -> Output:
        """Create a file for writing, on nodes that the NameNode chooses."""
        return OutputFile(path, replication, block_bytes, self._link, self.meter)

    def map_outputs(self, cursor: int) -> tuple[int, list[MapOutputAt], bool]:
        """Ask the own agent, which answers when there are new outputs, or after 5 s."""
        answer = self._link.request_json("GET", f"/jobs/{self._spec.job}/outputs?cursor={cursor}")
        return answer["cursor"], [MapOutputAt(**each) for each in answer["outputs"]], answer["all_done"]

    def fetch(self, output: MapOutputAt, partition: int) -> Buffer:
        """Return a partition of a map's output, from here or its node's agent. Raises FetchFailed."""
        try:
            if output.node == self._context.node:
                return self._fetch_here(output.attempt, partition)
            url = self._link.url_of(output.node)
            charge = self._link.receiving(output.node)
            response = self._link.send(url, "GET", f"/shuffle/{output.attempt}/{partition}")
            if response.status != 200:
                self._link.finish(url, response)
                raise Refused(response.status, f"{response.status} {response.reason}")
            return self._link.receive_all(url, output.node, response, charge)
        except (OSError, ValueError, LookupError) as error:
            self._link.forget(output.node)
            raise FetchFailed(f"{output.attempt} from {output.node}: {error}") from error

    def _fetch_here(self, attempt: str, partition: int) -> Buffer:
        folder = self._context.root / "mapout" / attempt
        offset, length = json.loads((folder / "index.json").read_bytes())[partition]
        data = bytearray(length)
        charge = self.disk_stream()
        with (folder / "data").open("rb", buffering=0) as file:
            file.seek(offset)
            if file.readinto(data) != length:
                raise OSError("the file ends early")
        charge(length)
        return data

    def ended(self, *, succeeded: bool) -> None:
        """Give the copy of the input block to the agent, or delete it. Called after the report is written."""
        if succeeded:
            self._reader.copy.give()
        else:
            self._reader.copy.drop()

    def fetch_failed(self, map_attempt: str) -> None:
        """Tell the JobTracker through the own agent."""
        failed = {"reduce_attempt": self._spec.attempt, "map_attempt": map_attempt}
        self._link.request_json("POST", "/fetch_failed", failed)

    def disk_stream(self) -> Charge:
        """Return a function that charges bytes to the node's disk budget and sleeps as long as its rate requires."""
        return self._link.stream("disk")

    @property
    def budget(self) -> Budget | None:
        """Return the budget that this process opened, or None without limits."""
        return self._link.budget

    def settle_cpu_by(self, settle: Callable[[], None]) -> None:
        """Set the function that charges CPU time while a transfer waits."""
        self._link.settle_cpu = settle

    def need_room(self) -> None:
        """Raise OSError (ENOSPC) if a fault marks the disk as full. On a really full one, writes raise."""
        if os.path.exists(self._full_disk):  # noqa: PTH110  `Path.exists` takes three times as long.
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


# Files of the block store: reading from the nearest replica that is not corrupt, and writing through a
# pipeline of agents.

LOCATE_WAITS_S = (0.3, 1.0, 2.0)  # Waits before a block's replicas are located again.
SEND_BYTES = 512 * 1024


class BlockReader:
    """Reads byte ranges of files. The specification has the split's blocks, the NameNode the others."""

    def __init__(self, spec: AttemptSpec, link: AgentLink, meter: Meter) -> None:
        self.copy = KeptCopy(spec, link)
        self._spec = spec
        self._link = link
        self._names = BlockCalls(link)
        self._meter = meter
        self._known: dict[str, list[BlockRange]] = {}
        if spec.file is not None:
            self._known[spec.file] = list(spec.blocks)

    def read(self, file: str, start: int, end: int) -> Iterator[Piece]:
        """Yield bytes [start, end) from the nearest good replicas. Raises OSError after several tries."""
        waits = iter(LOCATE_WAITS_S)
        located = False
        while start < end:
            block = self._block_at(file, start, located)
            failures: list[str] = []
            for node in self._nearest_first(block):
                try:
                    for piece in self._read_replica(block, node, start - block.offset, end - block.offset):
                        start += len(piece)
                        yield piece
                    break
                except (OSError, CorruptBlock) as error:
                    failures.append(f"{node}: {error}")
            if start < min(end, block.offset + block.length):
                self._wait_or_fail(file, block, failures, next(waits, None))
                located = True
            else:
                located = False

    def _wait_or_fail(self, file: str, block: BlockRange, failures: list[str], wait_s: float | None) -> None:
        if wait_s is None:
            why = "; ".join(failures) or "it has none"
            raise OSError(f"no replica of {block.block} of {file} could be read ({why})")
        time.sleep(wait_s)
        with contextlib.suppress(OSError):
            self._link.refresh_peers()

    def _block_at(self, file: str, position: int, ask: bool) -> BlockRange:
        known = self._known.setdefault(file, [])
        for block in [] if ask else known:
            if block.offset <= position < block.offset + block.length:
                return block
        for block in self._names.locate(file, position, 1):
            if block.offset <= position < block.offset + block.length:
                known[:] = [block, *(other for other in known if other.offset != block.offset)]
                return block
        raise OSError(f"{file} has no block at byte {position}")

    def _nearest_first(self, block: BlockRange) -> list[NodeId]:
        context, spec = self._link.context, self._spec
        toss = {node: chance(spec.seed, spec.attempt, block.block, node).random() for node in block.nodes}
        return sorted(block.nodes, key=lambda node: (context.distance(node), toss[node], node))

    def _read_replica(self, block: BlockRange, node: NodeId, low: int, high: int) -> Iterator[Piece]:
        """Yield a block's bytes [low, high), at most its length, from one node. Raises OSError."""
        high = min(high, block.length)
        here = node == self._link.context.node
        pieces = self._read_here(block, low, high) if here else self._read_there(block, node, low, high)
        for piece in pieces:
            self._meter.add("read_local_bytes" if here else "read_remote_bytes", len(piece))
            if not here:
                self.copy.take(block, low, piece)
            low += len(piece)
            yield piece
        if low < high:
            raise OSError(f"the replica of {block.block} ends early")

    def _read_here(self, block: BlockRange, low: int, high: int) -> Iterator[Piece]:
        charge = self._link.stream("disk")
        try:
            for piece in read_verified(self._link.context.root / "blocks" / block.block, low, high):
                charge(len(piece))
                yield piece
        except (CorruptBlock, FileNotFoundError) as error:
            self._report_bad(block, self._link.context.node)
            raise OSError(str(error) if isinstance(error, CorruptBlock) else "no such block here") from error

    def _read_there(self, block: BlockRange, node: NodeId, low: int, high: int) -> Iterator[Piece]:
        url = self._link.url_of(node)
        wanted = {"Range": f"bytes={low}-{high - 1}"}
        charge = self._link.receiving(node)
        response = self._link.send(url, "GET", f"/blocks/{block.block}", headers=wanted)
        if response.status not in (200, 206):
            if response.status in (404, 410):
                self._report_bad(block, node)
            self._link.finish(url, response)
            raise Refused(response.status, f"{response.status} {response.reason}")
        if response.length != high - low:
            self._link.drop(url)
            raise OSError(
                f"{node} has {response.length} bytes of {block.block} where {high - low} were asked for"
            )
        yield from self._link.receive(url, node, response, charge)

    def _report_bad(self, block: BlockRange, node: NodeId) -> None:
        # The report is only a hint. Reading continues with another replica even if the report is lost.
        with contextlib.suppress(OSError):
            self._names.report_bad(block.block, node)


class OutputFile:
    """A file of the block store that is written block by block. Readers can see the file after `close`."""

    def __init__(self, path: str, replication: int, block_bytes: int, link: AgentLink, meter: Meter) -> None:
        self._path = path
        self._replication = replication
        self._block_bytes = block_bytes
        self._link = link
        self._names = BlockCalls(link)
        self._meter = meter
        self._blocks: list[dict[str, Any]] = []
        self._pending = bytearray()
        self._put: _BlockPut | None = None

    def write(self, data: Buffer) -> None:
        """Append data to the file. Sends the data to the agent, except for a small remainder that stays in a buffer."""
        self._meter.add("output_bytes", len(data))
        if len(data) < SEND_BYTES // 2:
            self._pending += data
            if len(self._pending) < SEND_BYTES:
                return
            data, self._pending = self._pending, bytearray()
        elif self._pending:
            pending, self._pending = self._pending, bytearray()
            self._send(memoryview(pending))
        self._send(memoryview(data).cast("B"))

    def close(self) -> None:
        """Send the buffered data, end the last block and complete the file. Raises OSError if a step fails."""
        if self._pending:
            self._send(memoryview(self._pending))
        if self._put is not None:
            self._end_block(self._put)
        self._names.complete(self._path, self._blocks)

    def _send(self, view: memoryview) -> None:
        while len(view):
            put = self._put = self._put or self._begin_block()
            piece = view[: min(SEND_BYTES, self._block_bytes - put.length)]
            put.send(piece)
            view = view[len(piece) :]
            if put.length == self._block_bytes:
                self._end_block(put)

    def _begin_block(self) -> _BlockPut:
        block, nodes = self._names.allocate(self._path, self._replication, self._block_bytes)
        trouble: OSError | None = None
        for place in range(len(nodes)):
            try:
                return _BlockPut(self._link, block, nodes[place:])
            except OSError as error:  # The node is down: the NameNode repairs its replica.
                trouble = error
        raise OSError(f"no node could take a block of {self._path}") from trouble

    def _end_block(self, put: _BlockPut) -> None:
        self._put = None
        stored = put.finish()
        if not stored["nodes"] or stored["length"] != put.length:
            raise OSError(f"a block of {self._path} was not stored")
        self._blocks.append({name: stored[name] for name in ("block", "length", "nodes")})


class _BlockPut:
    """The transfer of one block: a chunked PUT to the first node, whose agent forwards it."""

    def __init__(self, link: AgentLink, block: str, nodes: list[NodeId]) -> None:
        self.length = 0
        self._link = link
        self._url = link.url_of(nodes[0])
        self._connection = link.open(self._url)
        self._connection.putrequest("PUT", f"/blocks/{block}?{urlencode({'pipeline': ','.join(nodes[1:])})}")
        for name, value in {**link.headers(), "Transfer-Encoding": "chunked"}.items():
            self._connection.putheader(name, value)
        self._connection.endheaders()

    def send(self, piece: memoryview) -> None:
        try:
            self._connection.send(b"%x\r\n" % len(piece))
            self._connection.send(piece)
            self._connection.send(b"\r\n")
        except OSError as error:
            self._say_why(error)
        self.length += len(piece)

    def finish(self) -> dict[str, Any]:
        try:
            self._connection.send(b"0\r\n\r\n")
        except OSError as error:
            self._say_why(error)
        return json.loads(self._answer())

    def _answer(self) -> bytes:
        try:
            return self._link.finish(self._url, self._connection.getresponse())
        except http.client.HTTPException as error:
            raise OSError(f"the agent did not answer: {error}") from error
        finally:
            self._connection.close()

    def _say_why(self, error: OSError) -> None:
        # An agent that fails answers before it has read all data. Its answer says more than a broken pipe.
        try:
            self._answer()
        except (ConnectionError, TimeoutError):
            pass
        raise error
