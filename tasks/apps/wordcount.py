"""Counts of words, which are maximal runs of bytes other than ASCII white space."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from schedbed.tasks.appkit.app import App
from schedbed.tasks.appkit.cost_law import AppCosts, Law
from schedbed.tasks.appkit.counting import ENTRY_BYTES, KeyCounts, reduce_counts
from schedbed.tasks.appkit.part_files import Parts, Pieces, Ran, shown
from schedbed.tasks.blockfile import Buffer
from schedbed.tasks.mapper import MapTask
from schedbed.tasks.readers import line_batches
from schedbed.tasks.spill_formats import CountLines, add_counts

SHORT_BYTES = 8
BATCH_BYTES = 2**20  # Text that is split into words at a time.
PENDING_BYTES = 4 * 2**20  # Short words, as numbers, that are sorted at a time.
IS_SPACE = np.isin(np.arange(256), list(b" \t\n\r\x0b\x0c"))
MASKS = np.array([(1 << 8 * length) - 1 for length in range(SHORT_BYTES + 1)], dtype=np.uint64)

Numbers = npt.NDArray[Any]


class WordCounts(KeyCounts):
    """A map's collector (the store of its output) that counts words.

    A short word is stored as the number formed by its bytes, padded with zeros.
    """

    def __init__(self, reduces: int) -> None:
        super().__init__(reduces)
        self._short: Counter[int] = Counter()
        self._pending: list[Numbers] = []
        self._pending_bytes = 0

    @property
    def buffered(self) -> int:
        """Return the approximate memory, in bytes, of the counts and of the words that are not counted yet."""
        return (len(self.counts) + len(self._short)) * ENTRY_BYTES + self._pending_bytes

    def feed(self, chunk: bytes) -> None:
        """Count the words in a chunk of whole lines."""
        if b"\0" in chunk:  # A zero byte would be taken for the padding of a number.
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
        """Return the counts as sorted lines for each reduce, and reset the counts."""
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
    """Return the words of a text without zero bytes: short words as little-endian numbers, long words as bytes."""
    data = b"".join((b" ", text, b" " * SHORT_BYTES))
    space = IS_SPACE.take(np.frombuffer(data, dtype=np.uint8))
    edges = np.flatnonzero(space[1:] != space[:-1]) + 1
    starts, ends = edges[0::2], edges[1::2]
    lengths = ends - starts
    short = lengths <= SHORT_BYTES
    # A view without a copy: the 8 bytes from each position of the text, as a number.
    windows = np.ndarray((len(data) - SHORT_BYTES + 1,), dtype="<u8", buffer=data, strides=(1,))
    numbers = windows[starts[short]] & MASKS[lengths[short]]
    long = [
        data[start:end] for start, end in zip(starts[~short].tolist(), ends[~short].tolist(), strict=True)
    ]
    return numbers, long


def _map(task: MapTask) -> None:
    task.collect("text", WordCounts(task.spec.reduces), CountLines())


def check_wordcount(text: Iterable[Buffer], parts: Iterable[Iterable[Buffer]]) -> str | None:
    """Return a one-line message about an error in the output of a word count of `text`, or None."""
    wanted = count_words(text)
    found: dict[bytes, int] = {}
    for number, pieces in enumerate(parts):
        part = b"".join(pieces)
        try:
            counts = add_counts([part])
        except ValueError as error:
            return f"part {number}: {error}"
        words = [line.rpartition(b"\t")[0] for line in part.split(b"\n")[:-1]]
        if words != sorted(counts):
            return f"part {number}: its words are not sorted, or not each on one line"
        if doubled := min(found.keys() & counts.keys(), default=None):
            return f"part {number}: {shown(doubled)} is in an earlier part as well"
        found |= counts
    if wrong := min(
        (word for word in wanted.keys() | found if wanted[word] != found.get(word, 0)), default=None
    ):
        return f"{shown(wrong)} was counted {found.get(wrong, 0)} times, it is there {wanted[wrong]} times"
    return None


def count_words(text: Iterable[Buffer]) -> Counter[bytes]:
    """Return the number of occurrences of each word in a text given in pieces."""
    counts: Counter[bytes] = Counter()
    rest = b""
    for piece in text:
        data = rest + bytes(piece)
        cut = max(data.rfind(space) for space in (b" ", b"\n", b"\t", b"\r", b"\x0b", b"\x0c")) + 1
        counts.update(data[:cut].split())
        rest = data[cut:]
    counts.update(rest.split())
    return counts


def _check(ran: Ran, text: Pieces, parts: Parts) -> str | None:
    return check_wordcount(text, parts)


APP = App(
    name="wordcount",
    paper="verma2011, lakshmi2019",
    summary="counts the words of a text; output lines word<TAB>count, sorted by word within a part",
    input="text",
    reduces="needed",
    run_map=_map,
    run_reduce=reduce_counts,
    check=_check,
    costs=AppCosts(
        map_start_s=0.0,
        map_cpu_s=1.278e-08,
        map_sort_s=1.391e-07,
        map_output=Law(70490.0, 0.07236),
        map_records=0.0125,
        reduce_start_s=0.0005768,
        reduce_sort_s=4.343e-08,
        reduce_cpu_s=3.758e-09,
        output=Law(71920.0, 0.07098),
        note="its own map and reduce code on 8 MiB of generated text, 2 reduces; the fastest of 3 on a 2-core VM",
    ),
)
