"""The checksum of a file as defined by HDFS, computed from the CRCs of chunks of 512 bytes.

The checksum of a block is the MD5 of its CRCs, and the checksum of the file is the MD5 of the blocks' MD5s.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from schedbed.cluster.blocks.dataplane import DataPlane

CRC_BYTES = 512
EMPTY_BYTES = 32
"""In HDFS, a file without blocks has the MD5 of this number of zero bytes."""


async def file_checksum(blocks: Sequence[Mapping[str, Any]], plane: DataPlane) -> dict[str, Any]:
    """Compute the checksum of a file by reading all its blocks through `plane`.

    `blocks` are the file's blocks as returned by `NameNode.locate`. Return {"algorithm", "bytes", "length"},
    the format of WebHDFS.
    """
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
