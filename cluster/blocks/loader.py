"""Upload of inputs into the block store before a run; reading and writing of other files.

Files are streamed. Only blocks of generated data are held in memory while they are sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from schedbed.cluster.blocks.block_errors import BlockUnavailable, NotTaken
from schedbed.cluster.blocks.dataplane import PIECE_BYTES, Body, DataPlane
from schedbed.cluster.masters import NameNodeDoor
from schedbed.cluster.spec import BlockSettings
from schedbed.cluster.wire.tls import Tls
from schedbed.tasks.appkit.app_catalogue import generate
from schedbed.tasks.chance import chance
from schedbed.tasks.errors import BadInput
from schedbed.tasks.specs import NodeId
from schedbed.tasks.workloads.planned import InputFile

PARALLEL = 4
MEMORY_BYTES = 128 << 20
TRIES = 3
RETRY_S = 0.5
_FILLER = bytes(range(256)) * (PIECE_BYTES // 256)


async def upload(
    file: InputFile, name_node: NameNodeDoor, peers: Mapping[NodeId, str], token: str, settings: BlockSettings
) -> None:
    """Upload one input file, as `upload_all`."""
    await upload_all([file], name_node, peers, token, settings)


async def upload_all(
    files: Sequence[InputFile],
    name_node: NameNodeDoor,
    peers: Mapping[NodeId, str],
    token: str,
    settings: BlockSettings,
    tls: Tls | None = None,
) -> None:
    """Upload input files to the nodes that the NameNode chooses, several blocks at a time.

    After three tries, nodes that do not store a block are left out, or others are taken if none does. Raises
    BadInput if a file of the host cannot be read or has become shorter, and BlockUnavailable if no node stores
    a block.
    """
    largest = max((length for file in files for length in file.blocks), default=1)
    streams = max(PARALLEL, len(peers) // 2)  # Each stream is limited by the receiving node's NIC.
    room = asyncio.Semaphore(max(1, min(streams, MEMORY_BYTES // max(largest, 1))))
    # Plans are made one at a time: their order decides block ids, which seed the placement.
    plans = [(file, await _plan(file, name_node, settings)) for file in files]
    async with DataPlane(peers, token, tls) as plane:
        try:
            async with asyncio.TaskGroup() as group:
                sent = [(file.path, await _send(file, plan, plane, group, room)) for file, plan in plans]
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from None
    for path, tasks in sent:
        await name_node.input_uploaded(path, [task.result() for task in tasks])


async def _plan(file: InputFile, name_node: NameNodeDoor, settings: BlockSettings) -> list[dict[str, Any]]:
    return await name_node.plan_input(
        file.path,
        list(file.blocks),
        settings.replication,
        placement=settings.placement,
        preferred=file.preferred,
        skew=settings.skew,
    )


async def _send(
    file: InputFile,
    plan: Sequence[Mapping[str, Any]],
    plane: DataPlane,
    group: asyncio.TaskGroup,
    room: asyncio.Semaphore,
) -> list[asyncio.Task[dict[str, Any]]]:
    """Start a task of `group` to send each planned block. `room` limits the unfinished ones."""
    tasks: list[asyncio.Task[dict[str, Any]]] = []
    bodies = _bodies(file)
    for planned in plan:
        await room.acquire()
        length, body = await asyncio.to_thread(next, bodies)
        tasks.append(group.create_task(_put(file.path, plane, planned, body, length)))
        tasks[-1].add_done_callback(lambda _: room.release())
    return tasks


async def _put(
    path: str, plane: DataPlane, planned: Mapping[str, Any], body: Body, length: int
) -> dict[str, Any]:
    """Send a block until all its nodes have stored it, or after `TRIES` some of them, or else any others.

    The NameNode repairs missing replicas. `body` returns the data as a stream of `length` bytes.
    """
    block, nodes = planned["block"], planned["nodes"]
    others = sorted(set(plane.peers) - {*nodes}, key=lambda node: chance(0, block, node).random())
    pipelines = [others[place : place + len(nodes)] for place in range(0, len(others), len(nodes))]
    stored: list[NodeId] = []
    trouble = ""
    for attempt, pipeline in enumerate([nodes] * TRIES + pipelines):
        if attempt >= TRIES and stored:
            break
        if 0 < attempt < TRIES:
            await asyncio.sleep(RETRY_S)
        try:
            answer = await plane.put(block, pipeline, body(), length)
        except BlockUnavailable as error:
            trouble = str(error)
            continue
        if answer["length"] == length:
            stored = answer["nodes"]
            if len(stored) == len(nodes):
                break
        else:
            trouble = f"{', '.join(answer['nodes'])} stored {answer['length']} bytes"
    if stored:
        return {"block": block, "length": length, "nodes": stored}
    raise BlockUnavailable(
        f"{path}: block {block} of {length} bytes did not reach {', '.join(nodes)}: {trouble}"
    )


# -- where bytes come from -----------------------------------------------------------------------------------


def _bodies(file: InputFile) -> Iterator[tuple[int, Body]]:
    """Yield (length, streaming function) of each block; generated ones may be shorter than planned."""
    if file.source == "file":
        return _real_bodies(file)
    if file.source == "filler":
        return ((length, _filler_body(length)) for length in file.blocks)
    return _generated_bodies(file)


def _real_bodies(file: InputFile) -> Iterator[tuple[int, Body]]:
    offset = 0
    for length in file.blocks:
        yield length, _real_body(Path(file.real_path or ""), offset, length)
        offset += length


def _real_body(path: Path, offset: int, length: int) -> Body:
    async def read() -> AsyncIterator[bytes]:
        try:
            with path.open("rb") as source:
                source.seek(offset)
                left = length
                while left:
                    piece = await asyncio.to_thread(source.read, min(left, PIECE_BYTES))
                    if not piece:
                        raise BadInput(f"{path}: ends {left} bytes early, it had more when the run began")
                    left -= len(piece)
                    yield piece
        except OSError as error:
            raise BadInput(f"{path}: cannot be read: {error.strerror}") from error

    return read


def _filler_body(length: int) -> Body:
    async def fill() -> AsyncIterator[bytes]:
        for start in range(0, length, len(_FILLER)):
            yield _FILLER[: length - start]

    return fill


def _generated_bodies(file: InputFile) -> Iterator[tuple[int, Body]]:
    pieces = generate(file.generate or "", file.length, file.seed)
    left = b""
    for length in file.blocks:
        block: list[bytes] = []
        room = length
        while room and (left := left or next(pieces, b"")):
            block.append(left[:room])
            left = left[room:]
            room -= len(block[-1])
        yield length - room, _held_body(block)


def _held_body(pieces: Sequence[bytes]) -> Body:
    async def give() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    return give


# -- any file ------------------------------------------------------------------------------------------------


async def fetch_file(
    blocks: Sequence[Mapping[str, Any]], peers: Mapping[NodeId, str], token: str, tls: Tls | None = None
) -> AsyncIterator[bytes]:
    """Yield a file's bytes, each block from its first good replica. Raises BlockUnavailable."""
    end = max((block["offset"] + block["length"] for block in blocks), default=0)
    async with DataPlane(peers, token, tls) as plane:
        async for piece in plane.read(blocks, 0, end):
            yield piece


async def store_file(
    path: str, data: AsyncIterator[bytes], name_node: NameNodeDoor, plane: DataPlane, settings: BlockSettings
) -> None:
    """Write a new file from a stream of unknown length, or after an error none."""
    await name_node.create(path, settings.replication, settings.size_bytes)
    try:
        await name_node.complete(path, await _write_blocks(path, data, name_node, plane, settings))
    except BaseException:
        await name_node.delete(path)
        raise


async def append_file(
    path: str, data: AsyncIterator[bytes], name_node: NameNodeDoor, plane: DataPlane, settings: BlockSettings
) -> None:
    """Append a stream as new blocks, or after an error nothing."""
    old = await name_node.locate(path)
    blocks = [{**block, "nodes": []} for block in old]  # The NameNode knows the current holders.
    await name_node.reopen(path)
    try:
        blocks += await _write_blocks(path, data, name_node, plane, settings)
    finally:
        await name_node.complete(path, blocks)


async def truncate_file(path: str, length: int, name_node: NameNodeDoor, plane: DataPlane) -> None:
    """Shorten a file to its first `length` bytes. A block across the new end is replaced."""
    status = await name_node.stat(path)
    old = await name_node.locate(path)
    blocks = [{**block, "nodes": []} for block in old]
    kept = [block for block in blocks if block["offset"] + block["length"] <= length]
    within = next((b for b in old if b["offset"] < length < b["offset"] + b["length"]), None)
    await name_node.reopen(path)
    try:
        if within is not None:
            size = length - within["offset"]
            given = await name_node.allocate(path, None, status["replication"], size)
            body = plane.read([within], within["offset"], length)
            kept.append(await plane.put(given["block"], given["nodes"], body, size))
        blocks = kept
    finally:
        await name_node.complete(path, blocks)


async def _write_blocks(
    path: str, data: AsyncIterator[bytes], name_node: NameNodeDoor, plane: DataPlane, settings: BlockSettings
) -> list[dict[str, Any]]:
    cutter = _Cutter(data, settings.size_bytes)
    blocks: list[dict[str, Any]] = []
    while await cutter.more():
        blocks.append(await _write_block(path, cutter, name_node, plane, settings))
    return blocks


async def _write_block(
    path: str, cutter: _Cutter, name_node: NameNodeDoor, plane: DataPlane, settings: BlockSettings
) -> dict[str, Any]:
    """Write the next block to nodes that take it. Raises NoNodes if none does."""
    excluded: list[NodeId] = []
    while True:
        given = await name_node.allocate(path, None, settings.replication, settings.size_bytes, excluded)
        try:
            return await plane.put(given["block"], given["nodes"], cutter.block(), None)
        except NotTaken:
            excluded += given["nodes"]


class _Cutter:
    """Divides a stream into blocks of equal size, with at most one piece of it in memory."""

    def __init__(self, data: AsyncIterator[bytes], block_bytes: int) -> None:
        self._data = data
        self._block_bytes = block_bytes
        self._left = b""

    async def more(self) -> bool:
        """Return whether the stream contains another byte."""
        while not self._left:
            try:
                self._left = await anext(self._data)
            except StopAsyncIteration:
                return False
        return True

    async def block(self) -> AsyncIterator[bytes]:
        """Yield the bytes of the next block in pieces. The last block may be shorter than the others."""
        room = self._block_bytes
        while room and await self.more():
            piece, self._left = self._left[:room], self._left[room:]
            room -= len(piece)
            yield piece
