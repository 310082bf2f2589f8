"""The formats of sorted data between maps and reduces of shipped applications: word counts, and 100-byte records."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from schedbed.tasks.blockfile import Buffer
from schedbed.tasks.readers import RECORD_BYTES, line_batches

KEY_BYTES = 10  # Length of a record's key.
PREFIX_BYTES = 8  # The beginning of a key that is compared as one number.
BATCH_BYTES = 256 * 1024  # Lines are split in batches of this size.
LINES_A_PIECE = 20_000
ROWS_A_PIECE = 10_000  # Sorted records are copied in pieces of 1 MB.


class RunFormat(Protocol):
    """Operations of merging for a record format. A run is sorted whole records, a window its part in memory."""

    def combine(self, runs: Sequence[Buffer]) -> Iterator[Buffer]:
        """Merge several runs into one, in memory. Some formats combine records with equal keys into one record."""
        ...

    def records(self, data: Buffer) -> int:
        """Return the number of records in `data`."""
        ...

    def whole(self, window: Buffer) -> int:
        """Return the bytes of the longest prefix of whole records."""
        ...

    def last_key(self, window: Buffer) -> bytes:
        """Return the last record's key."""
        ...

    def upto(self, window: Buffer, key: bytes) -> int:
        """Return the bytes of a sorted window's records with keys up to `key`."""
        ...


class CountLines:
    """The format of lines `word<TAB>count`, sorted by word. Merging adds the counts of equal words."""

    def combine(self, runs: Sequence[Buffer]) -> Iterator[Buffer]:
        """Merge runs: add the counts of equal words, and sort by word. A single run is returned unchanged."""
        if len(runs) == 1:
            yield runs[0]
            return
        counts = add_counts(runs)
        yield from count_lines(counts, list(counts))

    def records(self, data: Buffer) -> int:
        return bytes(data).count(b"\n")

    def whole(self, window: Buffer) -> int:
        return bytes(window).rfind(b"\n") + 1

    def last_key(self, window: Buffer) -> bytes:
        """Return the last line's word."""
        data = bytes(window)
        return _word(data[data.rfind(b"\n", 0, len(data) - 1) + 1 :])

    def upto(self, window: Buffer, key: bytes) -> int:
        lines = [line + b"\n" for line in bytes(window).split(b"\n")[:-1]]
        return sum(map(len, lines[: bisect_right(lines, key, key=_word)]))


def add_counts(runs: Sequence[Buffer]) -> dict[bytes, int]:
    """Return {word: sum of its counts} of all runs. Raises ValueError for a line without a count."""
    counts: dict[bytes, int] = {}
    get = counts.get
    for run in runs:
        for text in line_batches(bytes(run), BATCH_BYTES):
            for line in text.removesuffix(b"\n").split(b"\n"):
                word, _, count = line.rpartition(b"\t")
                counts[word] = get(word, 0) + int(count)
    return counts


def encode_counts(counts: Mapping[bytes, int]) -> bytes:
    return b"".join(count_lines(counts, list(counts)))


def count_lines(counts: Mapping[bytes, int], keys: list[bytes]) -> Iterator[bytes]:
    """Yield the lines `word<TAB>count` of the words `keys`, sorted by word, in pieces. `keys` is sorted in place."""
    keys.sort()
    for low in range(0, len(keys), LINES_A_PIECE):
        yield b"".join([b"%b\t%d\n" % (key, counts[key]) for key in keys[low : low + LINES_A_PIECE]])


def _word(line: bytes) -> bytes:
    return line.rpartition(b"\t")[0]


class SortedRecords:
    """The format of 100-byte records, sorted by all bytes, not only by the key of 10."""

    def combine(self, runs: Sequence[Buffer]) -> Iterator[Buffer]:
        """Merge runs of records. The order of equal records is arbitrary."""
        if len(runs) == 1:
            yield runs[0]
        elif runs:
            joined = np.concatenate([np.frombuffer(run, dtype=np.uint8) for run in runs])
            rows = joined.reshape(-1, RECORD_BYTES)
            yield from take_rows(rows, order_of(rows, merging=True))

    def records(self, data: Buffer) -> int:
        return len(data) // RECORD_BYTES

    def whole(self, window: Buffer) -> int:
        return len(window) // RECORD_BYTES * RECORD_BYTES

    def last_key(self, window: Buffer) -> bytes:
        """Return the last record, which is the key in this format."""
        return bytes(window[-RECORD_BYTES:])

    def upto(self, window: Buffer, key: bytes) -> int:
        """Return the total size in bytes of the records that are at most `key`, which are found by bisection."""
        starts = range(0, len(window), RECORD_BYTES)
        found = bisect_right(starts, key, key=lambda at: bytes(window[at : at + RECORD_BYTES]))
        return found * RECORD_BYTES


Rows = npt.NDArray[np.uint8]
Order = npt.NDArray[Any]


def order_of(rows: Rows, merging: bool = False) -> Order:
    """Return the permutation that sorts rows of shape (n, 100) by all bytes; `merging` for a few sorted runs.

    The first 8 bytes are sorted as one number, and only equal ones are compared further.
    """
    prefix = np.ascontiguousarray(rows[:, :PREFIX_BYTES]).view(">u8").ravel().astype(np.uint64)
    # numpy's stable sort of 64-bit numbers is a merge sort that finds runs; the default is faster on random keys.
    order = np.argsort(prefix, kind="stable" if merging else None)
    ordered = prefix[order]
    same = ordered[1:] == ordered[:-1]
    if same.any():
        tied = np.flatnonzero(np.r_[False, same] | np.r_[same, False])
        records = np.ascontiguousarray(rows[order[tied]]).view(f"S{RECORD_BYTES}").ravel()
        order[tied] = order[tied][np.argsort(records, kind="stable")]
    return order


def take_rows(rows: Rows, order: Order) -> Iterator[Buffer]:
    """Yield the rows in `order`, in pieces of about 1 MB."""
    for low in range(0, len(order), ROWS_A_PIECE):
        yield np.take(rows, order[low : low + ROWS_A_PIECE], axis=0).data.cast("B")


def cut_by_key(rows: Rows, order: Order, boundaries: Sequence[bytes]) -> list[Order]:
    """Divide `order` at keys. Part i has the keys in [boundaries[i-1], boundaries[i])."""
    keys = range(len(order))
    cuts = [
        bisect_left(keys, boundary, key=lambda at: rows[order[at], :KEY_BYTES].tobytes())
        for boundary in boundaries
    ]
    return [order[low:high] for low, high in zip([0, *cuts], [*cuts, len(order)], strict=True)]
