"""The DataNode of an agent: stores blocks with checksums in files, and transfers them over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import itertools
import logging
import os
from collections.abc import Callable, Iterator
from typing import Any

import aiohttp
from aiohttp import web

from schedbed.cluster.agent.folder import AgentDir, checked_id
from schedbed.cluster.agent.limits import NodeLimits, NodeStream
from schedbed.cluster.agent.link_budgets import Peers
from schedbed.cluster.agent.transfer import Relay, Sender, pieces_of
from schedbed.tasks.blockfile import BlockWriter, CorruptBlock, Piece, crc_path, read_verified

log = logging.getLogger(__name__)

Message = dict[str, Any]
DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class DataNode:
    """The block replicas of one node and their endpoints. `say` tells the TaskTracker of each change."""

    def __init__(
        self,
        where: AgentDir,
        limits: NodeLimits,
        peers: Peers,
        sender: Sender,
        say: Callable[[Message], None],
    ) -> None:
        self._where = where
        self._limits = limits
        self._peers = peers
        self._sender = sender
        self._say = say
        self._lengths = where.stored_blocks()
        self._corrupt: set[str] = set()  # found corrupt and not yet deleted or written again; never iterated
        self._tasks: set[asyncio.Task[None]] = set()  # kept from the garbage collector

    def report(self) -> list[Message]:
        """Return a list with {"block", "length"} for each replica that is not known to be corrupt."""
        held = self._lengths.items()
        return [{"block": block, "length": length} for block, length in held if block not in self._corrupt]

    # ----------------------------------------------------------------- read

    async def get(self, request: web.Request) -> web.StreamResponse:
        """Serve `GET /blocks/{block}` with Range: 404 missing, 410 corrupt (checksums are verified), 416 bad range."""
        block = request.match_info["block"]
        path = self._where.block(block)
        sender = await self._peers.admit(request)
        stream = self.sending(sender, request.query.get("unpaced") == "1")
        length = self._lengths.get(block)
        if length is None:
            raise web.HTTPNotFound(text=f"no block {block} here")
        if block in self._corrupt:
            raise web.HTTPGone(text=f"block {block} is corrupt")
        start, end = byte_range(request, length)
        try:
            pieces = read_verified(path, start, end)
            first = next(pieces, b"")
        except FileNotFoundError:
            self._forget(block)
            raise web.HTTPNotFound(text=f"no block {block} here") from None
        except CorruptBlock as error:
            self._found_corrupt(block, error)
            raise web.HTTPGone(text=str(error)) from None
        response = ranged_response(request, start, end, length)
        await response.prepare(request)
        try:
            await self.send(response, itertools.chain((first,), pieces), stream)
        except CorruptBlock as error:
            self._found_corrupt(block, error)
            break_off(request)  # The receiver notices that the body ends early.
        return response

    async def checksums(self, request: web.Request) -> web.Response:
        """Serve `GET /blocks/{block}/checksums`."""
        block = request.match_info["block"]
        path = crc_path(self._where.block(block))
        await self._peers.admit(request)
        if not self.has(block):
            raise web.HTTPNotFound(text=f"no good block {block} here")
        return web.Response(body=path.read_bytes(), content_type="application/octet-stream")

    def sending(self, to: str, unpaced: bool = False) -> NodeStream:
        """Return a stream that limits a transfer from this disk to `to`. Create it before reading the first byte."""
        return self._limits.stream(*(() if unpaced else ("disk", *self._peers.way_to(to))))

    async def send(self, response: web.StreamResponse, data: Iterator[Piece], stream: NodeStream) -> None:
        """Write and finish a response. `stream` (of `sending`) is charged for each piece before it is written."""
        for whole in data:
            for piece in pieces_of(whole, self._sender.piece_bytes):
                await stream.pay(len(piece))
                await response.write(piece)
        await response.write_eof()

    # ---------------------------------------------------------------- write

    async def expect(self, request: web.Request) -> web.Response | None:
        """Answer `Expect: 100-continue`: a full disk's node is left out before the writer sends any byte."""
        if self._where.disk_is_full:
            return self._full()
        assert request.transport is not None
        request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        return None

    def _full(self) -> web.Response:
        return web.Response(status=507, text=f"{self._peers.own}: {os.strerror(errno.ENOSPC)}")

    async def put(self, request: web.Request) -> web.Response:
        """Serve `PUT /blocks/{block}?pipeline=n2,n5[&unpaced=1]`: store and forward. 507 means a full disk.

        The response is {"block", "length", "nodes"}, where `nodes` have stored the block.
        """
        block = request.match_info["block"]
        path = self._where.block(block)
        names = ("disk", *self._peers.way_in(await self._peers.admit(request)))
        if self._where.disk_is_full:
            return self._full()
        unpaced = request.query.get("unpaced") == "1"
        below = [
            checked_id(node, "pipeline") for node in request.query.get("pipeline", "").split(",") if node
        ]
        relay = self._sender.relay(block, below, unpaced) if below else None
        try:
            with BlockWriter(path) as writer:
                await self._receive(request, writer, relay, () if unpaced else names)
        except OSError as error:
            if relay is not None:
                relay.abort()
            if not path.exists():
                crc_path(path).unlink(missing_ok=True)
            if error.errno not in DISK_FULL:
                raise
            return web.Response(status=507, text=f"{self._peers.own}: {error.strerror}")
        except BaseException:  # The writer has disconnected: the next nodes must also drop their part.
            if relay is not None:
                relay.abort()
            raise
        self.stored(block, writer.length)
        nodes = [self._peers.own, *(await relay.finish() if relay is not None else ())]
        return web.json_response({"block": block, "length": writer.length, "nodes": nodes})

    async def _receive(
        self, request: web.Request, writer: BlockWriter, relay: Relay | None, names: tuple[str, ...]
    ) -> None:
        stream = self._limits.stream(*names)
        async for chunk in request.content.iter_any():
            for piece in pieces_of(chunk, self._sender.piece_bytes):
                await stream.pay(len(piece))
                if relay is not None:
                    await relay.send(piece)
                writer.write(piece)

    def has(self, block: str) -> bool:
        """Return whether this node has a replica of the block that is not known to be corrupt."""
        return block in self._lengths and block not in self._corrupt

    def stored(self, block: str, length: int, event: str = "added") -> None:
        """Record and report a stored replica. The event `kept` means one that an attempt read from elsewhere."""
        self._lengths[block] = length
        self._corrupt.discard(block)
        self._say({"type": "block", "event": event, "block": block, "length": length})

    # --------------------------------------------------- the tracker's orders

    def replicate(self, block: str, nodes: list[str]) -> None:
        """Start copying a replica to `nodes` in the background. Each reports its new replica itself."""
        path = self._where.block(block)
        targets = [checked_id(node, "to") for node in nodes]
        task = asyncio.get_running_loop().create_task(self._replicate(block, path, targets))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def delete(self, block: str) -> None:
        """Delete the replica of a block. Transfers that have the file open continue."""
        path = self._where.block(block)
        path.unlink(missing_ok=True)
        crc_path(path).unlink(missing_ok=True)
        self._forget(block)

    def corrupt(self, block: str) -> None:
        """Inject a fault: invert one byte of a replica, which stays unnoticed until the replica is read."""
        with contextlib.suppress(FileNotFoundError), self._where.block(block).open("r+b") as file:
            middle = max(0, self._lengths.get(block, 0) // 2)
            file.seek(middle)
            if byte := file.read(1):
                file.seek(middle)
                file.write(bytes((byte[0] ^ 0xFF,)))

    async def _replicate(self, block: str, path: Any, nodes: list[str]) -> None:
        try:
            await self._sender.replicate(block, path, nodes)
        except CorruptBlock as error:
            self._found_corrupt(block, error)
        except (OSError, aiohttp.ClientError, TimeoutError) as error:
            log.warning("block %s was not copied to %s: %s", block, nodes, error)

    def _forget(self, block: str) -> None:
        self._corrupt.discard(block)
        length = self._lengths.pop(block, None)
        if length is not None:
            self._say({"type": "block", "event": "removed", "block": block, "length": length})

    def _found_corrupt(self, block: str, error: CorruptBlock) -> None:
        log.warning("corrupt: %s", error)
        if block in self._lengths and block not in self._corrupt:
            self._corrupt.add(block)
            length = self._lengths[block]
            self._say({"type": "block", "event": "corrupt", "block": block, "length": length})


def byte_range(request: web.Request, length: int) -> tuple[int, int]:
    """Return the byte range [start, end) that a request asks for. Raises HTTP error 416."""
    try:
        asked = request.http_range
        start, end, _ = slice(asked.start, asked.stop).indices(length)
        if asked.start is not None and asked.start >= 0 and (start >= length or end <= start):
            raise ValueError(f"{asked.start}- of {length} bytes")
    except ValueError as error:
        headers = {"Content-Range": f"bytes */{length}"}
        raise web.HTTPRequestRangeNotSatisfiable(text=f"range: {error}", headers=headers) from None
    return start, end


def ranged_response(request: web.Request, start: int, end: int, length: int) -> web.StreamResponse:
    """Return a response without a body for the range [start, end) of a block of `length` bytes."""
    partial = "Range" in request.headers
    response = web.StreamResponse(status=206 if partial else 200)
    response.content_length = end - start
    response.content_type = "application/octet-stream"
    if partial:
        response.headers["Content-Range"] = f"bytes {start}-{end - 1}/{length}"
    return response


def break_off(request: web.Request) -> None:
    """Close the connection of a request whose response is incomplete, so that the client notices an error."""
    if request.transport is not None:
        request.transport.abort()
