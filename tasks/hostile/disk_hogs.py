"""Programs that read and write the disk by direct system calls, which bypass the node's disk budget."""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from schedbed.tasks.hostile.orders import HostileWork

PIECE_BYTES = 2**20
# The range of a file that is written repeatedly. Buffered writes do not repeat, or the page cache would absorb them.
REGION_BYTES = 64 * 2**20
SYNC_PIECES = 4
READ_SHARE, READ_MIN_BYTES, READ_MOST_BYTES = 16, 4 * 2**20, 32 * 2**20


def buffered(work: HostileWork) -> None:
    """Write through the page cache. The kernel writes the pages to the disk later."""
    end_s, left, piece = time.monotonic() + work.seconds, work.size_bytes, os.urandom(PIECE_BYTES)
    with _opened(work.folder, os.O_WRONLY) as file:
        while left > 0 and time.monotonic() < end_s:
            left -= os.write(file, piece)


def direct(work: HostileWork) -> None:
    """Write with `O_DIRECT`, which bypasses the page cache."""
    end_s, left, at = time.monotonic() + work.seconds, work.size_bytes, 0
    with mmap.mmap(-1, PIECE_BYTES) as piece, _opened(work.folder, os.O_WRONLY | os.O_DIRECT) as file:
        piece.write(os.urandom(PIECE_BYTES))
        while left > 0 and time.monotonic() < end_s:
            left -= os.pwrite(file, piece, at)
            at = (at + PIECE_BYTES) % REGION_BYTES


def synced(work: HostileWork) -> None:
    """Write through the page cache, and call fsync after every 4 MiB."""
    end_s, left, at, piece = time.monotonic() + work.seconds, work.size_bytes, 0, os.urandom(PIECE_BYTES)
    with _opened(work.folder, os.O_WRONLY) as file:
        while left > 0 and time.monotonic() < end_s:
            for _ in range(SYNC_PIECES):
                left -= os.pwrite(file, piece, at)
                at = (at + PIECE_BYTES) % REGION_BYTES
            os.fsync(file)


def cold_reads(work: HostileWork) -> None:
    """Write a file and read it repeatedly from the disk, by dropping its pages from the page cache before each pass."""
    size = min(READ_MOST_BYTES, max(READ_MIN_BYTES, work.size_bytes // READ_SHARE))
    with _opened(work.folder, os.O_RDWR) as file:
        for _ in range(0, size, PIECE_BYTES):
            os.write(file, os.urandom(PIECE_BYTES))
        os.fsync(file)
        end_s, left, into = time.monotonic() + work.seconds, work.size_bytes, bytearray(PIECE_BYTES)
        while left > 0 and time.monotonic() < end_s:
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            for at in range(0, size, PIECE_BYTES):
                left -= os.preadv(file, [into], at)
                if time.monotonic() > end_s:
                    break


@contextmanager
def _opened(folder: Path, flags: int) -> Iterator[int]:
    """Create a file in the folder, yield its descriptor, and delete the file at the end of the `with` block."""
    path = folder / "hostile"
    file = os.open(path, flags | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        yield file
    finally:
        os.close(file)
        path.unlink(missing_ok=True)
