"""The interface between a map attempt and its application: records in chunks, and sorted or file output."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from schedbed.tasks.attempt_status import StatusFile
from schedbed.tasks.blockfile import Buffer, Piece
from schedbed.tasks.node_client.node import AttemptNode, Output
from schedbed.tasks.readers import READERS, RECORDS_IN
from schedbed.tasks.specs import AttemptSpec
from schedbed.tasks.spill import Collector, MapOutputWriter, buffer_bytes, publish
from schedbed.tasks.spill_formats import RunFormat

SORT_BUFFER_BYTES = 64 * 2**20
PIECE_MIN_BYTES = 64 * 1024


class MapTask:
    """A running map attempt. At its end, `partitions` contains the size in bytes of each partition of the output."""

    def __init__(
        self,
        spec: AttemptSpec,
        params: Mapping[str, Any],
        node: AttemptNode,
        root: Path,
        progress: StatusFile,
        core_speed: float,
    ) -> None:
        self.spec = spec
        self.params = params
        self.node = node
        self.progress = progress
        self.core_speed = core_speed
        self.partitions: list[int] = []
        self.sort_buffer_bytes = buffer_bytes(params.get("sort_buffer", SORT_BUFFER_BYTES), spec.memory_bytes)
        # A piece is small compared with the collector's buffer.
        self._piece_bytes = max(PIECE_MIN_BYTES, self.sort_buffer_bytes // 32)
        self.root = root
        self.scratch = root / "attempts" / spec.attempt
        self._final = root / "mapout" / spec.attempt

    def chunks(self, kind: str) -> Iterator[Piece]:
        """Yield the split's records in chunks of whole ones: "text", "records" (of 100 bytes) or "raw"."""
        spec, done = self.spec, 0
        for chunk in READERS[kind](self.read, spec.offset, spec.length, spec.file_length):
            yield chunk
            done += len(chunk)
            if kind in RECORDS_IN:
                self.node.meter.add("records_in", RECORDS_IN[kind](chunk))
            self.progress.report("map", 0.95 * done / max(1, spec.length))

    def read(self, start: int, end: int) -> Iterator[Piece]:
        """Yield the bytes [start, end) of the split's file in pieces. Raises ValueError for a job without input."""
        if self.spec.file is None:
            raise ValueError(f"{self.spec.app} reads input, but this job has none")
        for piece in self.node.read(self.spec.file, start, end):
            for low in range(0, len(piece), self._piece_bytes):
                yield piece if len(piece) <= self._piece_bytes else piece[low : low + self._piece_bytes]

    def collect(self, kind: str, collector: Collector, form: RunFormat) -> None:
        """Feed the split's records to a collector, spilling when it is full, and publish the sorted output."""
        self.gather(map(bytes, self.chunks(kind)), collector, form)

    def gather(self, pieces: Iterable[bytes], collector: Collector, form: RunFormat) -> None:
        """Feed pieces of whole records to a collector, spilling when full, and publish the sorted output."""
        writer = MapOutputWriter(form, self.scratch, self._final, self.sort_buffer_bytes, self.node)
        for piece in pieces:
            if collector.buffered >= self.sort_buffer_bytes:
                writer.spill(collector)
            collector.feed(piece)
        self.progress.report("sort", 0.95)
        self.partitions = writer.finish(collector)

    def publish(self, partitions: Iterable[Iterable[Buffer]], form: RunFormat | None = None) -> None:
        """Publish partitions for the reduces without sorting. With `form`, output records are counted."""
        self.partitions = publish(self.scratch, self._final, self.node, partitions, form)

    def create(self) -> Output:
        """Create the output file of a map. Raises ValueError if the job has reduces."""
        spec = self.spec
        if spec.output is None:
            raise ValueError(f"{spec.app} writes files from its maps, but this job has reduces")
        return self.node.create(spec.output, spec.replication, spec.block_bytes)
