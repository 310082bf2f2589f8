"""Block files, written once: a block's data, and a CRC-32 for each 64 KiB, verified by reads."""

from __future__ import annotations

import os
import zlib
from array import array
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

CHUNK_BYTES = 64 * 1024
READ_BYTES = 16 * CHUNK_BYTES

Buffer = bytes | bytearray | memoryview
Piece = bytes | bytearray


class CorruptBlock(Exception):
    """Raised if a block's data does not match its checksums, or its checksum file is unusable."""


def crc_path(path: Path) -> Path:
    return path.with_name(path.name + ".crc")


class BlockWriter:
    """Writes a block to a temporary file, renamed at the end of the `with` block or deleted after an exception."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.length = 0
        self._aside = path.with_name(f"{path.name}.{os.getpid()}-{id(self):x}.tmp")
        self._crcs = array("I")
        self._crc = 0

    def __enter__(self) -> BlockWriter:
        self._file = self._aside.open("wb", buffering=0)
        return self

    def write(self, data: Buffer) -> None:
        """Append `data` to the block."""
        view = memoryview(data).cast("B")
        at = 0
        while at < len(view):
            piece = view[at : at + CHUNK_BYTES - self.length % CHUNK_BYTES]
            self._crc = zlib.crc32(piece, self._crc)
            at += len(piece)
            self.length += len(piece)
            if self.length % CHUNK_BYTES == 0:
                self._end_chunk()
        _write_all(self._file.fileno(), view)

    def checksums(self) -> bytes:
        """Return the checksums so far in the file's format."""
        open_chunk = [self._crc] if self.length % CHUNK_BYTES else []
        return (self._crcs + array("I", open_chunk)).tobytes()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
        try:
            if kind is None:
                self._commit()
        finally:
            self._aside.unlink(missing_ok=True)

    def _commit(self) -> None:
        crc_path(self.path).write_bytes(self.checksums())
        self._aside.replace(self.path)

    def _end_chunk(self) -> None:
        self._crcs.append(self._crc)
        self._crc = 0


def _write_all(descriptor: int, view: memoryview) -> None:
    while len(view):
        view = view[os.write(descriptor, view) :]


def read_verified(path: Path, start: int = 0, end: int | None = None) -> Iterator[bytes]:
    """Yield the verified bytes [start, end) in pieces of at most 1 MiB. Raises CorruptBlock, FileNotFoundError."""
    with path.open("rb", buffering=0) as file:
        length = os.fstat(file.fileno()).st_size
        crcs = _read_crcs(path, length)
        end = length if end is None else min(end, length)
        at = start - start % CHUNK_BYTES
        chunks_end = min(length, -(-end // CHUNK_BYTES) * CHUNK_BYTES)
        file.seek(at)
        while start < end and at < end:
            piece = file.read(min(READ_BYTES, chunks_end - at))
            _verify(path, piece, crcs, at)
            low, high = max(start - at, 0), min(end - at, len(piece))
            yield piece if high - low == len(piece) else piece[low:high]
            at += len(piece)


def _read_crcs(path: Path, length: int) -> array[int]:
    crcs = array("I")
    try:
        crcs.frombytes(crc_path(path).read_bytes())
    except (FileNotFoundError, ValueError) as error:
        if not path.exists():
            raise
        raise CorruptBlock(f"{path.name}: no usable checksums ({error})") from error
    if len(crcs) != -(-length // CHUNK_BYTES):
        raise CorruptBlock(
            f"{path.name}: {length} bytes, but {len(crcs)} checksums of {CHUNK_BYTES} bytes each"
        )
    return crcs


def _verify(path: Path, piece: bytes, crcs: array[int], at: int) -> None:
    view = memoryview(piece)
    first = at // CHUNK_BYTES
    if not piece:
        raise CorruptBlock(f"{path.name}: ends at byte {at}")
    for index, low in enumerate(range(0, len(piece), CHUNK_BYTES), first):
        if zlib.crc32(view[low : low + CHUNK_BYTES]) != crcs[index]:
            raise CorruptBlock(f"{path.name}: checksum of bytes from {index * CHUNK_BYTES} does not match")
