"""Block transfers over HTTP between the agents of nodes and clients outside the emulated cluster."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

import aiohttp

from schedbed.cluster.blocks.block_errors import BlockUnavailable, NotTaken
from schedbed.cluster.wire.agent_session import agent_session
from schedbed.cluster.wire.tls import Tls
from schedbed.tasks.specs import NodeId

Body = Callable[[], AsyncIterator[bytes]]
"""A function that returns the content of a block as a new stream at each call."""

PIECE_BYTES = 1 << 20
CONNECT_S = 5.0
STALLED_S = 60.0
"""A transfer without progress for this time has failed."""

_FAILURES = (aiohttp.ClientError, OSError, asyncio.TimeoutError, json.JSONDecodeError)


class DataPlane:
    """Writes and reads blocks over HTTP, as an async context manager. `peers` may change meanwhile.

    Declared rates are ignored: loading input and reading output are not part of the emulated cluster.
    """

    def __init__(self, peers: Mapping[NodeId, str], token: str, tls: Tls | None = None) -> None:
        self.peers = peers
        self._token = token
        self._tls = tls

    async def __aenter__(self) -> DataPlane:
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=STALLED_S)
        self._session = agent_session(self._token, self._tls, timeout=timeout)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def put(
        self, block: str, nodes: Sequence[NodeId], body: AsyncIterator[bytes], length: int | None
    ) -> dict[str, Any]:
        """Send a block along `nodes`. Return {"block", "length", "nodes"} with those that stored it.

        As in HDFS (DataStreamer of 3.4.1), nodes that are down or full are left out, and the NameNode repairs
        the missing replicas. `length` is None if not known in advance. Raises NotTaken if all nodes are,
        BlockUnavailable if the first of the others fails later. Exceptions of `body` pass.
        """
        source, failures = _Source(body), list[str]()
        for place in range(len(nodes)):
            try:
                return await self._put(block, nodes[place:], source, length)
            except BlockUnavailable as error:
                if source.is_used:
                    raise
                failures.append(str(error))
        raise NotTaken("; ".join(failures))

    async def _put(
        self, block: str, nodes: Sequence[NodeId], source: _Source, length: int | None
    ) -> dict[str, Any]:
        params = {"pipeline": ",".join(nodes[1:]), "unpaced": "1"}
        headers = {} if length is None else {"Content-Length": str(length)}
        url = f"{self._url(nodes[0])}/blocks/{block}"
        try:
            async with self._session.put(
                url, params=params, data=source.pieces(), headers=headers, expect100=True
            ) as response:
                if response.status >= 300:
                    raise BlockUnavailable(f"{nodes[0]} refused block {block}: {await _reason(response)}")
                return await response.json(content_type=None)
        except _FAILURES as error:
            if source.error is not None:
                raise source.error from None
            raise BlockUnavailable(f"{nodes[0]} did not store block {block}: {_told(error)}") from error

    async def get(self, block: str, node: NodeId, start: int, end: int) -> AsyncIterator[bytes]:
        """Yield bytes [start, end) of one replica. Raises BlockUnavailable after the bytes before an error."""
        url = f"{self._url(node)}/blocks/{block}"
        headers = {"Range": f"bytes={start}-{end - 1}"}
        at = start
        try:
            async with self._session.get(url, params={"unpaced": "1"}, headers=headers) as response:
                if response.status not in (200, 206):
                    raise BlockUnavailable(f"{node}: {await _reason(response)}")
                if response.status == 200 and start:
                    raise BlockUnavailable(f"{node}: ignored the range that was asked for")
                async for piece in response.content.iter_chunked(PIECE_BYTES):
                    at += len(piece)
                    yield piece[: len(piece) - max(0, at - end)]
        except _FAILURES as error:
            raise BlockUnavailable(f"{node}: {_told(error)}") from error
        if at < end:
            raise BlockUnavailable(f"{node}: {end - at} bytes are missing")

    async def read(self, blocks: Sequence[Mapping[str, Any]], start: int, end: int) -> AsyncIterator[bytes]:
        """Yield bytes [start, end) of a file. `blocks` are as of `NameNode.locate`.

        Each node with a replica is tried in turn. BlockUnavailable has the failure of each.
        """
        for block in blocks:
            low, high = max(start, block["offset"]), min(end, block["offset"] + block["length"])
            if low < high:
                async for piece in self._read_block(block, low - block["offset"], high - block["offset"]):
                    yield piece

    async def _read_block(self, block: Mapping[str, Any], at: int, end: int) -> AsyncIterator[bytes]:
        failures: list[str] = []
        for node in block["nodes"]:
            try:
                async for piece in self.get(block["block"], node, at, end):
                    at += len(piece)
                    yield piece
                return
            except BlockUnavailable as error:
                failures.append(str(error))
        why = "; ".join(failures) or "it has no good replica"
        raise BlockUnavailable(f"block {block['block']} could not be read ({why})")

    def _url(self, node: NodeId) -> str:
        url = self.peers.get(node)
        if url is None:
            raise BlockUnavailable(f"node {node} is not known")
        return url


class _Source:
    """An upload's data, and whether a node took any. Keeps an exception of reading, which the HTTP client hides."""

    def __init__(self, body: AsyncIterator[bytes]) -> None:
        self._body = body
        self.error: Exception | None = None
        self.is_used = False

    async def pieces(self) -> AsyncIterator[bytes]:
        self.is_used = True
        try:
            async for piece in self._body:
                yield piece
        except Exception as error:
            self.error = error
            raise


def _told(error: BaseException) -> str:
    return str(error) or type(error).__name__


async def _reason(response: aiohttp.ClientResponse) -> str:
    text = (await response.text(errors="replace")).strip()
    return f"{response.status} {text.splitlines()[0] if text else response.reason}"
