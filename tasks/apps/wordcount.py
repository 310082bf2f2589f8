"""Counts words: maximal runs of bytes that are not ASCII white space. Words of up to 8 bytes are counted as numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from schedbed.tasks.apps.app import App
from schedbed.tasks.apps.counting import ENTRY_BYTES, KeyCounts, reduce_counts
from schedbed.tasks.blockfile import Buffer
from schedbed.tasks.mapper import MapTask
from schedbed.tasks.readers import line_batches
from schedbed.tasks.spill_formats import CountLines

SHORT_BYTES = 8
BATCH_BYTES = 2**20  # of text that is cut into words at a time
PENDING_BYTES = 4 * 2**20  # of short words, as numbers, that are sorted at a time
IS_SPACE = np.isin(np.arange(256), list(b" \t\n\r\x0b\x0c"))
MASKS = np.array([(1 << 8 * length) - 1 for length in range(SHORT_BYTES + 1)], dtype=np.uint64)

Numbers = npt.NDArray[Any]


class WordCounts(KeyCounts):
    """Counts words as a map's collector. A short word is the number that its bytes are, zero bytes behind it."""

    def __init__(self, reduces: int) -> None:
        super().__init__(reduces)
        self._short: Counter[int] = Counter()
        self._pending: list[Numbers] = []
        self._pending_bytes = 0

    @property
    def buffered(self) -> int:
        """About how many bytes the counts and the words to be counted take."""
        return (len(self.counts) + len(self._short)) * ENTRY_BYTES + self._pending_bytes

    def feed(self, chunk: bytes) -> None:
        """Count the words of a chunk of whole lines."""
        if b"\0" in chunk:  # there a number would not tell where its word ends
            super().feed(chunk)
            return
        for text in line_batches(chunk, BATCH_BYTES):
            short, long = words_of(text)
            self.counts.update(long)
            self._pending.append(short)
            self._pending_bytes += short.nbytes
            if self._pending_bytes >= PENDING_BYTES:
                self._count_pending()

    def drain(self) -> list[Iterable[Buffer]]:
        """Sorted lines with counts for each partition."""
        self._count_pending()
        while self._short:
            number, count = self._short.popitem()
            self.counts[number.to_bytes(SHORT_BYTES, "little").rstrip(b"\0")] += count
        return super().drain()

    def _count_pending(self) -> None:
        if self._pending:
            numbers, counts = np.unique(np.concatenate(self._pending), return_counts=True)
            self._short.update(dict(zip(numbers.tolist(), counts.tolist(), strict=True)))
        self._pending, self._pending_bytes = [], 0


def words_of(text: bytes) -> tuple[Numbers, list[bytes]]:
    """The words of a text without zero bytes: the short ones as little-endian numbers, the long ones as they are."""
    data = b"".join((b" ", text, b" " * SHORT_BYTES))
    space = IS_SPACE.take(np.frombuffer(data, dtype=np.uint8))
    edges = np.flatnonzero(space[1:] != space[:-1]) + 1
    starts, ends = edges[0::2], edges[1::2]
    lengths = ends - starts
    short = lengths <= SHORT_BYTES
    # The 8 bytes from each place of the text on, as numbers, without a copy.
    windows = np.ndarray((len(data) - SHORT_BYTES + 1,), dtype="<u8", buffer=data, strides=(1,))
    numbers = windows[starts[short]] & MASKS[lengths[short]]
    long = [
        data[start:end] for start, end in zip(starts[~short].tolist(), ends[~short].tolist(), strict=True)
    ]
    return numbers, long


def _map(task: MapTask) -> None:
    task.collect("text", WordCounts(task.spec.reduces), CountLines())


APP = App(
    name="wordcount",
    paper="verma2011, lakshmi2019",
    summary="counts the words of a text; output lines word<TAB>count, sorted by word within a part",
    input="text",
    reduces="needed",
    run_map=_map,
    run_reduce=reduce_counts,
)
