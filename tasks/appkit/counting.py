"""Code that is shared by applications that count: a collector that counts keys, and a reduce function that
adds the counts.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable, Iterator

from schedbed.tasks.blockfile import Buffer
from schedbed.tasks.readers import line_batches
from schedbed.tasks.reducer import ReduceTask
from schedbed.tasks.spill_formats import CountLines, count_lines

BATCH_BYTES = 64 * 1024  # Text counted at a time, so that the keys fit the CPU's cache.
LINES_A_WRITE = 5_000
ENTRY_BYTES = 200  # Memory of a counted key of usual length in a growing dictionary.


class KeyCounts:
    """A map's collector that counts keys. A key's CRC-32 selects the reduce.

    Subclasses override `keys`, the keys in a text, or `feed`, which counts those in a chunk.
    """

    def __init__(self, reduces: int) -> None:
        self.counts: Counter[bytes] = Counter()
        self._reduces = reduces

    @property
    def buffered(self) -> int:
        return len(self.counts) * ENTRY_BYTES

    def keys(self, text: bytes) -> Iterable[bytes]:
        """Return the keys in whole lines, by default the words."""
        return text.split()

    def feed(self, chunk: bytes) -> None:
        for text in line_batches(chunk, BATCH_BYTES):
            self.counts.update(self.keys(text))

    def drain(self) -> list[Iterable[Buffer]]:
        """Return the counts as sorted lines for each reduce, and reset the counts."""
        counts, self.counts = self.counts, Counter()
        parts: list[list[bytes]] = [[] for _ in range(self._reduces)]
        for key in counts:
            parts[zlib.crc32(self.group(key)) % self._reduces].append(key)
        return [count_lines(counts, part) for part in parts]

    def group(self, key: bytes) -> bytes:
        """Return the text whose CRC-32 selects a key's partition, by default the key."""
        return key


def reduce_counts(task: ReduceTask) -> None:
    """Reduce lines `key<TAB>count` to one per key, sorted."""
    task.write_merged(CountLines())


def merged_counts(task: ReduceTask) -> Iterator[tuple[bytes, int]]:
    """Fetch and merge the map outputs of a reduce. Yield each key with the sum of its counts, sorted by key."""
    for piece in task.merged(CountLines()):
        for text in line_batches(bytes(piece), BATCH_BYTES):
            for line in text.removesuffix(b"\n").split(b"\n"):
                key, _, count = line.rpartition(b"\t")
                yield key, int(count)


def write_lines(task: ReduceTask, lines: Iterable[bytes]) -> None:
    """Write lines without newlines to the output file, and count the records."""
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
