"""Sorted sequences of records, called runs, on a node's disk: spills, merging, and the partitioned output of a map."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from schedbed.tasks.attempt_status import write_json
from schedbed.tasks.blockfile import Buffer
from schedbed.tasks.node_client.http_requests import Charge
from schedbed.tasks.node_client.node import AttemptNode
from schedbed.tasks.spill_formats import RunFormat

WINDOW_MIN_BYTES = 64 * 1024
BUFFER_MIN_BYTES = 4 * 2**20


def buffer_bytes(wanted_bytes: int, memory_bytes: int) -> int:
    """Return `wanted_bytes`, but at most a quarter of the memory limit or 4 MiB, whichever is larger."""
    return min(wanted_bytes, max(BUFFER_MIN_BYTES, memory_bytes // 4))


@dataclass(frozen=True, slots=True)
class FileRun:
    """A sorted sequence of records that is a byte range of a local file."""

    path: Path
    offset: int
    length: int

    def __len__(self) -> int:
        return self.length


Run = Buffer | FileRun


class Collector(Protocol):
    """A map's collector: partitions and sorts records into a sorted run for each partition."""

    @property
    def buffered(self) -> int:
        """Return the estimated number of bytes of memory that the collector uses."""
        ...

    def feed(self, chunk: bytes) -> None:
        """Add a chunk of whole records."""
        ...

    def drain(self) -> list[Iterable[Buffer]]:
        """Return one sorted run per partition, each in pieces. Reading all pieces empties the collector."""
        ...


class LocalFile:
    """A local file of consecutive partitions, charged to the disk budget and counted as spilled.

    `index` has [offset, length] of each complete partition.
    """

    def __init__(self, path: Path, node: AttemptNode) -> None:
        self.path = path
        self.index: list[list[int]] = []
        self._node = node
        self._file = path.open("wb")
        self._charge: Charge | None = None  # Set at the first write.
        self._start = self._length = 0

    def write(self, data: Buffer) -> None:
        """Append `data` to the current partition."""
        self._node.need_room()
        self._charge = self._charge or self._node.disk_stream()
        self._file.write(data)
        self._length += len(data)
        self._charge(len(data))
        self._node.meter.add("spill_bytes", len(data))

    def end_partition(self) -> None:
        self.index.append([self._start, self._length - self._start])
        self._start = self._length

    def close(self) -> None:
        """Close the file. Raises OSError (ENOSPC) on a full disk, even if all earlier writes succeeded."""
        self._file.close()

    def run(self, partition: int) -> FileRun:
        """Return a partition, which can be read and merged."""
        return FileRun(self.path, *self.index[partition])


def merge_runs(form: RunFormat, runs: Sequence[Run], memory_bytes: int, charge: Charge) -> Iterator[Buffer]:
    """Merge sorted runs, and yield the result in pieces; reads from files are charged.

    Files of at most `memory_bytes` in total are merged in memory, others window by window.
    """
    runs = [run for run in runs if len(run)]
    files = sum(len(run) for run in runs if isinstance(run, FileRun))
    if files <= memory_bytes:
        yield from form.combine([_load(run, charge) for run in runs])
        return
    share = max(WINDOW_MIN_BYTES, memory_bytes // max(1, len(runs)))
    windows = [_Window(form, run, share, charge) for run in runs]
    while windows:
        # No file can have further records up to the smallest last key of the incomplete windows.
        limits = [form.last_key(window.data) for window in windows if window.more]
        cut = min(limits, default=None)
        yield from form.combine([piece for window in windows if len(piece := window.take(cut))])
        windows = [window for window in windows if window.fill()]


def _load(run: Run, charge: Charge) -> Buffer:
    if not isinstance(run, FileRun):
        return run
    charge(run.length)
    return _read_at(run.path, run.offset, run.length)


class _Window:
    """The part of a run that is in memory during a merge. If the run is not a file, the window is the whole run."""

    def __init__(self, form: RunFormat, run: Run, size: int, charge: Charge) -> None:
        self._form = form
        self._file = run if isinstance(run, FileRun) else None
        self._size = size
        self._charge = charge
        self._at = 0  # Position in the run of the next read.
        self._tail: Buffer = b""  # The beginning of a record that is not complete yet.
        self.data: Buffer = b"" if isinstance(run, FileRun) else memoryview(run)
        self.fill()

    @property
    def more(self) -> bool:
        """Return whether the file has more after the window."""
        return self._file is not None and self._at < self._file.length

    def take(self, cut: bytes | None) -> Buffer:
        """Remove and return the records whose key is at most `cut`, or all records if `cut` is None."""
        if not len(self.data):
            return b""
        length = len(self.data) if cut is None else self._form.upto(self.data, cut)
        taken, self.data = self.data[:length], self.data[length:]
        return taken

    def fill(self) -> bool:
        """Read more records from the file if the window is empty. Return False at the end of the run."""
        while self.more and not len(self.data):
            assert self._file is not None
            size = min(self._size, self._file.length - self._at)
            read = bytes(self._tail) + _read_at(self._file.path, self._file.offset + self._at, size)
            self._charge(size)
            self._at += size
            whole = self._form.whole(read)
            self.data, self._tail = memoryview(read)[:whole], read[whole:]
        return len(self.data) > 0


def _read_at(path: Path, offset: int, length: int) -> bytes:
    with path.open("rb", buffering=0) as file:
        data = os.pread(file.fileno(), length, offset)
    if len(data) != length:
        raise OSError(f"{path.name} ends before byte {offset + length}")
    return data


class MapOutputWriter:
    """Writes a map's partitioned output: spills in `scratch`, then the merged output.

    That is also written in `scratch` and renamed to `final`, so a map that dies leaves no output.
    """

    def __init__(
        self, form: RunFormat, scratch: Path, final: Path, memory_bytes: int, node: AttemptNode
    ) -> None:
        self._form = form
        self._scratch = scratch
        self._final = final
        self._memory_bytes = memory_bytes
        self._node = node
        self._spills: list[LocalFile] = []

    def spill(self, collector: Collector) -> None:
        """Write the collector's content to a new spill file, with one sorted run per partition."""
        file = LocalFile(self._scratch / f"spill-{len(self._spills)}", self._node)
        self._write(file, collector.drain())
        self._spills.append(file)

    def finish(self, collector: Collector) -> list[int]:
        """Merge the collector's rest and all spills, and publish the output. Return the partitions' bytes."""
        if not self._spills:
            return publish(self._scratch, self._final, self._node, collector.drain(), self._form)
        self.spill(collector)
        count = len(self._spills[0].index)
        sizes = publish(self._scratch, self._final, self._node, map(self._merged, range(count)), self._form)
        for file in self._spills:
            file.path.unlink()
        return sizes

    def _write(self, file: LocalFile, partitions: Iterable[Iterable[Buffer]]) -> None:
        for pieces in partitions:
            for piece in pieces:
                file.write(piece)
            file.end_partition()
        file.close()

    def _merged(self, partition: int) -> Iterator[Buffer]:
        runs = [file.run(partition) for file in self._spills]
        return merge_runs(self._form, runs, self._memory_bytes, self._node.disk_stream())


def publish(
    scratch: Path,
    final: Path,
    node: AttemptNode,
    partitions: Iterable[Iterable[Buffer]],
    form: RunFormat | None = None,
) -> list[int]:
    """Write a map's output (`data`, `index.json`) in `scratch` and rename it to `final`.

    Return the partitions' bytes. With `form`, output records are counted.
    """
    folder = scratch / "output"
    folder.mkdir()
    file = LocalFile(folder / "data", node)
    for pieces in partitions:
        for piece in pieces:
            file.write(piece)
            if form is not None:
                node.meter.add("records_out", form.records(piece))
        file.end_partition()
    file.close()
    sizes = [length for _, length in file.index]
    node.meter.add("output_bytes", sum(sizes))
    write_json(folder / "index.json", file.index)
    final.parent.mkdir(exist_ok=True)
    folder.rename(final)
    return sizes
