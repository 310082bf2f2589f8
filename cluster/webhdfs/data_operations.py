"""WebHDFS operations that read and write the content of files."""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from aiohttp import web

from schedbed.cluster.blocks.block_errors import BadPath
from schedbed.cluster.blocks.dataplane import PIECE_BYTES, DataPlane
from schedbed.cluster.blocks.loader import append_file, store_file, truncate_file
from schedbed.cluster.spec import BlockSettings
from schedbed.cluster.webhdfs.attribute_operations import block_location, permission_digits
from schedbed.cluster.webhdfs.rest_call import PREFIX, USER, Operations, RestCall, done


async def open_file(call: RestCall) -> web.StreamResponse:
    """Answer OPEN: return at most `length` bytes of a file, starting at `offset`."""
    if call.flag("noredirect"):
        return _second_step(call)
    size = (await call.names.stat(call.path))["length"]
    offset, length = call.number("offset", 0), call.number("length", None)
    if offset > size:
        raise BadPath(f"{call.path}: offset={offset} is beyond its end ({size} bytes)")
    end = size if length is None else min(size, offset + length)
    blocks = await call.names.locate(call.path, offset=offset, length=end - offset)
    async with await call.store.plane() as plane:
        pieces = plane.read(blocks, offset, end)
        first = await anext(pieces, b"")  # Immediate failures can still be answered as an error.
        response = web.StreamResponse(headers={"Content-Type": "application/octet-stream"})
        response.content_length = end - offset
        await response.prepare(call.request)
        await response.write(first)
        async for piece in pieces:
            await response.write(piece)
    await response.write_eof()
    return response


async def create(call: RestCall) -> web.StreamResponse:
    """Answer CREATE. Without data, redirect to the URL that takes them, or with `noredirect` return it."""
    settings = BlockSettings(
        size_bytes=call.number("blocksize", call.store.settings.size_bytes, least=1),
        replication=call.number("replication", call.store.settings.replication, least=1),
    )
    attributes = {"permission": permission_digits(call, None)}
    if _brings_no_data(call):
        return _second_step(call)
    if call.flag("overwrite"):
        old = await call.store.find(call.path)
        if old is not None and old["type"] == "file":
            await call.names.delete(call.path)
    async with await call.store.plane() as plane:
        await store_file(call.path, _pieces(call), call.names, plane, settings)
    if call.user != USER:
        attributes["owner"] = call.user
    if any(attributes.values()):
        await call.names.set_attributes(call.path, attributes)
    location = f"{call.request.url.origin()}{PREFIX}{call.path}"
    return web.Response(status=201, headers={"Location": location})


async def append(call: RestCall) -> web.StreamResponse:
    """Answer APPEND, as new blocks. Without data, redirect to the URL that takes them."""
    if _brings_no_data(call):
        return _second_step(call)
    old = await call.names.stat(call.path)
    size_bytes = old["block_bytes"] or call.store.settings.size_bytes
    settings = BlockSettings(size_bytes=size_bytes, replication=old["replication"])
    async with await call.store.plane() as plane:
        await append_file(call.path, _pieces(call), call.names, plane, settings)
    return web.Response()


async def truncate(call: RestCall) -> web.StreamResponse:
    """Answer TRUNCATE: shorten a file to `newlength` bytes. The answer is sent once this is done."""
    call.needed("newlength", "a number of bytes")
    length, size = call.number("newlength", 0), (await call.names.stat(call.path))["length"]
    if length > size:
        sizes = f"Current size: {size}, truncate size: {length}."
        raise BadPath(f"Cannot truncate to a larger file size. {sizes}")
    async with await call.store.plane() as plane:
        await truncate_file(call.path, length, call.names, plane)
    return done(True)


async def get_file_checksum(call: RestCall) -> web.StreamResponse:
    """Answer GETFILECHECKSUM as HDFS computes it: equal for equal content and block sizes."""
    if call.flag("noredirect"):
        return _second_step(call)
    blocks = await call.names.locate(call.path)
    async with await call.store.plane() as plane:
        return web.json_response({"FileChecksum": await file_checksum(blocks, plane)})


async def get_file_block_locations(call: RestCall) -> web.StreamResponse:
    """Answer GETFILEBLOCKLOCATIONS: return the blocks in a byte range of a file, with nodes and racks."""
    offset, length = call.number("offset", 0), call.number("length", None)
    nodes = await call.names.nodes()
    blocks = await call.names.locate(call.path, offset=offset, length=length)
    rows = [block_location(block, nodes) for block in blocks]
    return web.json_response({"BlockLocations": {"BlockLocation": rows}})


def _second_step(call: RestCall) -> web.Response:
    location = str(call.request.url.update_query(data="true", noredirect="false"))
    if call.flag("noredirect"):
        return web.json_response({"Location": location})
    return web.Response(status=307, headers={"Location": location})


def _brings_no_data(call: RestCall) -> bool:
    return call.request.query.get("data") != "true" and not call.request.body_exists


async def _pieces(call: RestCall) -> AsyncIterator[bytes]:
    async for piece in call.request.content.iter_chunked(PIECE_BYTES):
        yield piece


DATA_OPERATIONS: Operations = {
    ("GET", "OPEN"): open_file,
    ("PUT", "CREATE"): create,
    ("POST", "APPEND"): append,
    ("POST", "TRUNCATE"): truncate,
    ("GET", "GETFILECHECKSUM"): get_file_checksum,
    ("GET", "GETFILEBLOCKLOCATIONS"): get_file_block_locations,
}


# The checksum of a file as defined by HDFS, computed from the CRCs of chunks of 512 bytes.
#
# The checksum of a block is the MD5 of its CRCs, and the checksum of the file is the MD5 of the blocks'
# MD5s.

CRC_BYTES = 512
EMPTY_BYTES = 32
"""In HDFS, a file without blocks has the MD5 of this number of zero bytes."""


async def file_checksum(blocks: Sequence[Mapping[str, Any]], plane: DataPlane) -> dict[str, Any]:
    """Compute a file's checksum by reading all its blocks. Return {"algorithm", "bytes", "length"}."""
    blocks = [block for block in blocks if block["length"]]
    if not blocks:
        return _answer(0, 0, hashlib.md5(bytes(EMPTY_BYTES)).digest())
    whole = hashlib.md5()
    for block in blocks:
        end = block["offset"] + block["length"]
        whole.update(await _block_md5(plane.read([block], block["offset"], end)))
    many = len(blocks) > 1
    return _answer(CRC_BYTES, -(-blocks[0]["length"] // CRC_BYTES) if many else 0, whole.digest())


async def _block_md5(pieces: AsyncIterator[bytes]) -> bytes:
    digest, left = hashlib.md5(), b""
    async for piece in pieces:
        data = left + piece
        whole = len(data) - len(data) % CRC_BYTES
        digest.update(_crcs(data[:whole]))
        left = data[whole:]
    digest.update(_crcs(left))
    return digest.digest()


def _crcs(data: bytes) -> bytes:
    view = memoryview(data)
    found = [zlib.crc32(view[at : at + CRC_BYTES]) for at in range(0, len(data), CRC_BYTES)]
    return struct.pack(f">{len(found)}I", *found)


def _answer(crc_bytes: int, crcs_a_block: int, md5: bytes) -> dict[str, Any]:
    packed = struct.pack(">iq", crc_bytes, crcs_a_block) + md5
    algorithm = f"MD5-of-{crcs_a_block}MD5-of-{crc_bytes}CRC32"
    return {"algorithm": algorithm, "bytes": packed.hex(), "length": len(packed)}
