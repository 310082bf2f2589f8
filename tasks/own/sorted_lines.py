"""Lines sorted by their bytes, as by `LC_ALL=C sort`: the data between maps and reduces of users.

A line is `key<TAB>value`, or only a key. While sorted, equal lines are stored once with a count, to save
memory.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from schedbed.tasks.blockfile import Buffer
from schedbed.tasks.readers import line_batches

BATCH_BYTES = 256 * 1024  # Lines are split in batches of this size.
ENTRY_BYTES = 150  # Memory of a counted line in addition to its bytes.
PIECE_BYTES = 256 * 1024
WINDOW_BYTES = 2 * 2**20  # Bytes of all runs together that are merged at a time.
WINDOW_MIN_BYTES = 16 * 1024

Stage = Callable[[Iterable[Buffer]], Iterator[bytes]]
"""A function from lines to lines, both in pieces of whole lines."""
Partition = Callable[[bytes, int], int]
"""A function of a key and the number of reduces that returns the index of the key's reduce."""


class SortedLines:
    """The `RunFormat` of sorted lines. A record's key is the whole line."""

    def combine(self, runs: Sequence[Buffer]) -> Iterator[Buffer]:
        """Merge several sorted sequences of lines. Equal lines are all kept."""
        if len(runs) == 1:
            yield runs[0]
        elif sum(map(len, runs)) <= WINDOW_BYTES:
            yield from _merged(runs)
        else:
            yield from self._by_windows(runs)

    def records(self, data: Buffer) -> int:
        return _plain(data).count(b"\n")

    def whole(self, window: Buffer) -> int:
        """Return the bytes up to and including the last newline."""
        return _plain(window).rfind(b"\n") + 1

    def last_key(self, window: Buffer) -> bytes:
        """Return the last line without its newline."""
        data = _plain(window)
        return bytes(data[data.rfind(b"\n", 0, len(data) - 1) + 1 : len(data) - 1])

    def upto(self, window: Buffer, key: bytes) -> int:
        """Return the bytes of the lines up to `key`, by bisection."""
        return _upto(_plain(window), key, 0, len(window))

    def _by_windows(self, runs: Sequence[Buffer]) -> Iterator[Buffer]:
        """Merge sorted sequences of lines, at most `WINDOW_BYTES` at a time to save memory."""
        share = max(WINDOW_MIN_BYTES, WINDOW_BYTES // len(runs))
        left = [(_plain(run), 0) for run in runs if len(run)]
        while left:
            ends = [_line_end(data, at + share) for data, at in left]
            more = [
                self.last_key(memoryview(data)[at:end])
                for (data, at), end in zip(left, ends, strict=True)
                if end < len(data)
            ]
            cut = min(more, default=None)
            pieces: list[Buffer] = []
            rest: list[tuple[bytes | bytearray, int]] = []
            for (data, at), end in zip(left, ends, strict=True):
                upto = end if cut is None else _upto(data, cut, at, end)
                pieces.append(memoryview(data)[at:upto])
                if upto < len(data):
                    rest.append((data, upto))
            yield from _merged(pieces)
            left = rest


def _plain(data: Buffer) -> bytes | bytearray:
    """Return bytes or a bytearray, which can be searched; a memoryview is copied."""
    return bytes(data) if isinstance(data, memoryview) else data


def _line_end(data: bytes | bytearray, at: int) -> int:
    return data.find(b"\n", at) + 1 or len(data) if at < len(data) else len(data)


def _upto(data: bytes | bytearray, key: bytes, low: int, high: int) -> int:
    """Return the position of the first line greater than `key` among the sorted lines in data[low:high]."""
    while low < high:
        middle = (low + high) // 2
        start = max(low, data.rfind(b"\n", low, middle) + 1)
        end = data.find(b"\n", start)
        if data[start:end] <= key:
            low = end + 1
        else:
            high = start
    return low


def _merged(runs: Iterable[Buffer]) -> Iterator[bytes]:
    counts: Counter[bytes] = Counter()
    for run in runs:
        if len(run):
            counts.update(bytes(run)[:-1].split(b"\n"))
    yield from expanded(counts, list(counts))


def expanded(counts: Counter[bytes], lines: list[bytes]) -> Iterator[bytes]:
    """Yield the sorted `lines` in pieces, with each line repeated `counts[line]` times. `lines` is sorted in place."""
    lines.sort()
    piece: list[bytes] = []
    size = 0
    for line in lines:
        whole, count = line + b"\n", counts[line]
        at_once = max(1, PIECE_BYTES // len(whole))
        while count > at_once:
            yield b"".join((*piece, whole * at_once))
            piece, size, count = [], 0, count - at_once
        piece.append(whole * count if count > 1 else whole)
        size += len(whole) * count
        if size >= PIECE_BYTES:
            yield b"".join(piece)
            piece, size = [], 0
    if piece:
        yield b"".join(piece)


def by_crc(key: bytes, reduces: int) -> int:
    """Return the number of the reduce for a key, by the key's CRC-32. Shipped applications use the same rule."""
    return zlib.crc32(key) % reduces


class LineCollector:
    """A user's map's collector: sorts lines and divides them among the reduces.

    `partition` chooses a key's reduce. `combine`, if given, shortens sorted lines before they are stored.
    """

    def __init__(self, reduces: int, partition: Partition = by_crc, combine: Stage | None = None) -> None:
        self._reduces = reduces
        self._partition = partition
        self._combine = combine
        self._counts: Counter[bytes] = Counter()
        self._bytes = self._lines = 0  # Counted since the last drain.

    @property
    def buffered(self) -> int:
        """Return the approximate bytes of memory."""
        return len(self._counts) * (ENTRY_BYTES + self._bytes // max(1, self._lines))

    def feed(self, chunk: bytes) -> None:
        """Add the lines of a chunk of whole lines."""
        for text in line_batches(chunk, BATCH_BYTES):
            lines = text.removesuffix(b"\n").split(b"\n")
            self._counts.update(lines)
            self._lines += len(lines)
        self._bytes += len(chunk)

    def drain(self) -> list[Iterable[Buffer]]:
        """Return the sorted lines of each partition, and clear the collector."""
        counts, self._counts = self._counts, Counter()
        self._bytes = self._lines = 0
        parts: list[list[bytes]] = [list(counts)] if self._reduces == 1 else self._dealt(counts)
        sorted_parts = [expanded(counts, part) for part in parts]
        if self._combine is None:
            return list(sorted_parts)
        return [self._combined(part) for part in sorted_parts]

    def _dealt(self, counts: Iterable[bytes]) -> list[list[bytes]]:
        parts: list[list[bytes]] = [[] for _ in range(self._reduces)]
        for line in counts:
            parts[self._partition(line.partition(b"\t")[0], self._reduces)].append(line)
        return parts

    def _combined(self, run: Iterator[bytes]) -> Iterator[Buffer]:
        first = next(run, None)
        if first is None:
            return
        assert self._combine is not None
        # A combiner may write its lines in any order.
        yield from _merged(self._combine(_again(first, run)))


def _again(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest
