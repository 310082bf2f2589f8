"""The common part of counting applications: a collector that counts keys, and the reduce that adds the counts."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable, Iterator

from schedbed.tasks.blockfile import Buffer
from schedbed.tasks.readers import line_batches
from schedbed.tasks.reducer import ReduceTask
from schedbed.tasks.spill_formats import CountLines, count_lines

BATCH_BYTES = 64 * 1024  # of text at a time: the keys stay in the CPU's cache
LINES_A_WRITE = 5_000
ENTRY_BYTES = 200  # of memory for a counted key of a usual length, while the dictionary grows


class KeyCounts:
    """A map's collector that counts keys and partitions them by CRC-32. `keys` returns the keys of a piece of
    text."""

    def __init__(self, reduces: int) -> None:
        self.counts: Counter[bytes] = Counter()
        self._reduces = reduces

    @property
    def buffered(self) -> int:
        """Return the approximate size of the counts in bytes."""
        return len(self.counts) * ENTRY_BYTES

    def keys(self, text: bytes) -> Iterable[bytes]:
        """Return the keys in some whole lines: the words, unless a subclass says otherwise."""
        return text.split()

    def feed(self, chunk: bytes) -> None:
        """Count the keys of a chunk of whole lines."""
        for text in line_batches(chunk, BATCH_BYTES):
            self.counts.update(self.keys(text))

    def drain(self) -> list[Iterable[Buffer]]:
        """Return the sorted lines with counts of each partition."""
        counts, self.counts = self.counts, Counter()
        parts: list[list[bytes]] = [[] for _ in range(self._reduces)]
        for key in counts:
            parts[zlib.crc32(self.group(key)) % self._reduces].append(key)
        return [count_lines(counts, part) for part in parts]

    def group(self, key: bytes) -> bytes:
        """Return the text that decides which reduce gets the key: the key itself, unless a subclass says otherwise."""
        return key


def reduce_counts(task: ReduceTask) -> None:
    """Add up the counts of each key and write them as sorted lines `key<TAB>count`."""
    task.write_merged(CountLines())


def merged_counts(task: ReduceTask) -> Iterator[tuple[bytes, int]]:
    """Yield each key of this reduce once with its count, in the order of the keys, after copying and merging."""
    for piece in task.merged(CountLines()):
        for text in line_batches(bytes(piece), BATCH_BYTES):
            for line in text.removesuffix(b"\n").split(b"\n"):
                key, _, count = line.rpartition(b"\t")
                yield key, int(count)


def write_lines(task: ReduceTask, lines: Iterable[bytes]) -> None:
    """Write the reduce's output, one line per record. The lines come without newlines."""
    output = task.create()
    for batch in _batches(lines):
        output.write(b"".join(batch))
        task.node.meter.add("records_out", len(batch))
    output.close()


def _batches(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    batch: list[bytes] = []
    for line in lines:
        batch.append(line + b"\n")
        if len(batch) == LINES_A_WRITE:
            yield batch
            batch = []
    if batch:
        yield batch
