"""Transfers of blocks to other agents: copies of blocks on disk, and blocks forwarded as they arrive."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from urllib.parse import urlencode

import aiohttp

from schedbed.cluster.agent.limits import NodeLimits
from schedbed.cluster.agent.link_budgets import Peers
from schedbed.cluster.spec import NodeSpec
from schedbed.cluster.wire.agent_session import agent_session
from schedbed.cluster.wire.tls import Tls
from schedbed.tasks.blockfile import CorruptBlock, read_verified
from schedbed.tasks.pacing import PIECE_S

Chunk = bytes | bytearray | memoryview
Put = Callable[[AsyncIterator[Chunk]], Awaitable[list[str]]]

log = logging.getLogger(__name__)

STALL_S = 60.0  # seconds without progress after which a pipeline's next node is given up
QUEUE_CHUNKS = 8
PIECE_BYTES = 64 * 1024


def pieces_of(data: Chunk, size: int) -> list[memoryview]:
    view = memoryview(data)
    return [view[low : low + size] for low in range(0, len(view), size)]


class Sender:
    """Transfers blocks to and from other agents, at the rate that the node's limits permit.

    Pieces take about `PIECE_S` seconds on the slower of disk and network: a pipeline's node forwards whole
    pieces, so longer ones would make nodes wait for each other.
    """

    def __init__(
        self, token: str, peers: Peers, limits: NodeLimits, node: NodeSpec, tls: Tls | None = None
    ) -> None:
        self._peers = peers
        self.limits = limits
        paced_bytes = max(PIECE_BYTES, int(min(node.disk_bps, node.network_bps) * PIECE_S))
        self.piece_bytes = 2**20 if limits.budget is None else min(2**20, paced_bytes)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=5.0, sock_read=STALL_S)
        self._session = agent_session(token, tls, headers={"X-Node": peers.own}, timeout=timeout)

    async def close(self) -> None:
        await self._session.close()

    def relay(self, block: str, nodes: list[str], unpaced: bool) -> Relay | None:
        """Start forwarding a block along the reachable ones of `nodes`. Return None if there is none."""
        reachable = [node for node in nodes if self._peers.url(node)]
        if not reachable:
            return None
        stream = self.limits.stream(*(() if unpaced else self._peers.way_out(reachable[0])))
        return Relay(lambda chunks: self.put(block, reachable, chunks, unpaced), stream.pay)

    async def put(
        self, block: str, nodes: list[str], chunks: AsyncIterator[Chunk], unpaced: bool = False
    ) -> list[str]:
        """PUT a block to the first of `nodes` that takes it, which forwards it. Return the nodes that stored it."""
        is_used = False

        async def noted() -> AsyncIterator[Chunk]:
            nonlocal is_used
            is_used = True
            async for chunk in chunks:
                yield chunk

        for place in range(len(nodes) - 1):
            try:
                return await self._put(block, nodes[place:], noted(), unpaced)
            except (OSError, aiohttp.ClientError) as error:
                if is_used:
                    raise
                log.warning("%s takes no replica of %s: %s", nodes[place], block, error)
        return await self._put(block, nodes[-1:], chunks, unpaced)

    async def _put(
        self, block: str, nodes: list[str], chunks: AsyncIterator[Chunk], unpaced: bool
    ) -> list[str]:
        url = self._peers.url(nodes[0])
        if url is None:
            raise ConnectionError(f"{nodes[0]} cannot be reached")
        query = {"pipeline": ",".join(nodes[1:])} | ({"unpaced": "1"} if unpaced else {})
        to = f"{url}/blocks/{block}?{urlencode(query)}"
        async with self._session.put(to, data=chunks, expect100=True) as response:
            response.raise_for_status()
            return [str(node) for node in (await response.json())["nodes"]]

    async def fetch(
        self, node: str, what: str, low: int = 0, high: int | None = None
    ) -> AsyncIterator[bytes]:
        """Yield bytes of a block, or of its checksums (`what`). The caller must limit the rate."""
        url = self._peers.url(node)
        if url is None:
            raise ConnectionError(f"{node} cannot be reached")
        wanted = {} if high is None else {"Range": f"bytes={low}-{high - 1}"}
        async with self._session.get(f"{url}/blocks/{what}", headers=wanted) as response:
            response.raise_for_status()
            async for piece in response.content.iter_chunked(self.piece_bytes):
                yield piece

    async def replicate(self, block: str, path: Path, nodes: list[str]) -> list[str]:
        """Copy a block file to `nodes`, within the rate limits. Return those that stored it. Raises CorruptBlock."""
        corrupt: list[CorruptBlock] = []  # aiohttp only reports that the body could not be sent
        try:
            return await self.put(block, nodes, self._from_disk(path, corrupt, nodes[0]))
        except (OSError, aiohttp.ClientError):
            if corrupt:
                raise corrupt[0] from None
            raise

    async def _from_disk(self, path: Path, corrupt: list[CorruptBlock], to: str) -> AsyncIterator[Chunk]:
        stream = self.limits.stream("disk", *self._peers.way_out(to))
        try:
            for data in read_verified(path):
                for piece in pieces_of(data, self.piece_bytes):
                    await stream.pay(len(piece))
                    yield piece
        except CorruptBlock as error:
            corrupt.append(error)
            raise


# The replication pipeline
#
# A block with three replicas is not sent three times by its writer, whose network would be the bottleneck. The
# writer sends it to the first node, which forwards each piece to the second while it stores it, and so on. So
# a block arrives everywhere after about the time of one transfer, and each link carries it once, as in HDFS.
#
# The ways to fail follow from that. If the writer goes away, the block must exist nowhere: each node drops its
# part and breaks the connection behind it. If a later node fails, the earlier ones go on: a replica too few is
# repaired by the NameNode, but a write that failed for it would fail a task. So the answer that travels back
# names the nodes that have stored the block, and only those become replicas. A slow later node may not stall
# the earlier ones for ever: the queue between arriving and leaving is short, and who does not take from it for
# `STALL_S` seconds counts as failed.


class Relay:
    """A block that is forwarded to the next node of its pipeline while it arrives.

    If that connection breaks, this node still stores the block.
    """

    def __init__(self, put: Put, pay: Callable[[int], Awaitable[None]]) -> None:
        """Start `put`, which returns the nodes that stored the block. `pay` waits for the rate budgets."""
        self._pay = pay
        self._queue: asyncio.Queue[Chunk | None] = asyncio.Queue(QUEUE_CHUNKS)
        self._broken = False
        self._task = asyncio.create_task(self._run(put))

    async def send(self, chunk: Chunk) -> None:
        """Queue a chunk for the next node. Wait while the queue of unsent chunks is full."""
        if self._broken:
            return
        try:
            await asyncio.wait_for(self._queue.put(chunk), STALL_S)
        except TimeoutError:
            self.abort()

    async def finish(self) -> list[str]:
        """End the transfer after the last chunk. Return the later nodes of the pipeline that stored the block."""
        if not self._broken:
            await self._queue.put(None)
        await asyncio.wait({self._task})
        return [] if self._task.cancelled() else self._task.result()

    def abort(self) -> None:
        """Break the connection to the next node, so that no later node stores an incomplete block."""
        self._broken = True
        self._task.cancel()

    async def _run(self, put: Put) -> list[str]:
        try:
            return await put(self._chunks())
        except (OSError, aiohttp.ClientError, TimeoutError) as error:
            log.warning("a pipeline broke: %s", error)
            return []
        finally:
            self._broken = True
            while not self._queue.empty():  # Wake a sender that waits for space in the queue.
                self._queue.get_nowait()

    async def _chunks(self) -> AsyncIterator[Chunk]:
        while (chunk := await self._queue.get()) is not None:
            await self._pay(len(chunk))
            yield chunk
