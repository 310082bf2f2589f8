"""Additional replicas on this node, made from blocks that attempts read from other nodes.

The agent fetches what an attempt did not read, and keeps the replica only if its checksums equal the
original's.
"""

from __future__ import annotations

import asyncio
import errno
import itertools
import logging
import os
import shutil
from pathlib import Path

import aiohttp
from aiohttp import web

from schedbed.cluster.agent.datanode import DataNode
from schedbed.cluster.agent.folder import AgentDir, BadRequest, checked_id, open_plain
from schedbed.cluster.agent.limits import NodeLimits
from schedbed.cluster.agent.transfer import Sender
from schedbed.tasks.blockfile import READ_BYTES, BlockWriter, CorruptBlock
from schedbed.tasks.node_client.read_aside import NAME

log = logging.getLogger(__name__)


class Keeper:
    """The endpoint by which attempts ask to keep a block. The missing part is fetched in the background."""

    def __init__(self, where: AgentDir, limits: NodeLimits, sender: Sender, data: DataNode) -> None:
        self._where = where
        self._limits = limits
        self._sender = sender
        self._data = data
        self._numbers = itertools.count(1)
        self._tasks: set[asyncio.Task[None]] = set()

    async def keep(self, request: web.Request) -> web.Response:
        """Serve `POST /blocks/{block}/keep` {"attempt", "offset", "length", "nodes"}: 404 if no part was
        saved.

        The attempt saved a part from `offset`; the rest of the `length` bytes is fetched from `nodes`.
        """
        block = request.match_info["block"]
        path = self._where.block(block)
        try:
            raw = await request.json()
            offset, length = int(raw["offset"]), int(raw["length"])
            nodes = [checked_id(str(node), "nodes") for node in raw["nodes"]]
            copy = self._where.attempt(str(raw["attempt"])) / NAME
        except (ValueError, TypeError, KeyError) as error:
            raise BadRequest(f"keep: {type(error).__name__}: {error}") from None
        aside = path.with_name(f"{block}.kept-{next(self._numbers)}.tmp")
        try:
            copy.rename(aside)
        except FileNotFoundError:
            raise web.HTTPNotFound(text=f"no copy of {block} here") from None
        task = asyncio.get_running_loop().create_task(self._finish(path, aside, offset, length, nodes))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return web.json_response({})

    async def close(self) -> None:
        """Cancel all additional replicas that are still being fetched, and delete their files."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _finish(self, path: Path, aside: Path, offset: int, length: int, nodes: list[str]) -> None:
        try:
            if self._where.disk_is_full:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if not self._data.has(path.name):
                await self._assemble(path, aside, offset, length, nodes)
                self._data.stored(path.name, length, "kept")
        except (OSError, aiohttp.ClientError, TimeoutError, CorruptBlock) as error:
            log.warning("no copy of %s is kept: %s", path.name, error)
        finally:
            if aside.is_dir() and not aside.is_symlink():  # An attempt may put anything there.
                shutil.rmtree(aside, ignore_errors=True)
            else:
                aside.unlink(missing_ok=True)

    async def _assemble(self, path: Path, aside: Path, offset: int, length: int, nodes: list[str]) -> None:
        """Write the block from the part `aside`, at `offset`, and `nodes`, or no file. Raises CorruptBlock, OSError."""
        with BlockWriter(path) as writer:
            await self._fetch(writer, nodes, offset)
            stream = self._limits.stream("disk")
            with open_plain(aside) as file:  # An attempt made the file, so it may be a link or a pipe.
                while piece := file.read(min(READ_BYTES, self._sender.piece_bytes)):
                    await stream.pay(len(piece))
                    writer.write(piece)
            await self._fetch(writer, nodes, length)
            if writer.length != length:
                raise CorruptBlock(f"{path.name}: {writer.length} bytes instead of {length}")
            if writer.checksums() != await self._checksums(path.name, nodes):
                raise CorruptBlock(f"{path.name}: the checksums are not those of the replica that was read")

    async def _fetch(self, writer: BlockWriter, nodes: list[str], high: int) -> None:
        """Append up to position `high`, each node continuing where another failed. Raises OSError if all fail."""
        failures: list[str] = []
        for node in nodes:
            if writer.length >= high:
                return
            stream = self._limits.stream("disk", "rx")
            try:
                async for piece in self._sender.fetch(node, writer.path.name, writer.length, high):
                    await stream.pay(len(piece))
                    writer.write(piece)
            except (OSError, aiohttp.ClientError, TimeoutError) as error:
                failures.append(f"{node}: {error}")
        if writer.length < high:
            raise OSError("; ".join(failures) or "no node has the rest")

    async def _checksums(self, block: str, nodes: list[str]) -> bytes:
        failures: list[str] = []
        for node in nodes:
            try:
                return b"".join([piece async for piece in self._sender.fetch(node, f"{block}/checksums")])
            except (OSError, aiohttp.ClientError, TimeoutError) as error:
                failures.append(f"{node}: {error}")
        raise OSError("; ".join(failures) or "no node has its checksums")
