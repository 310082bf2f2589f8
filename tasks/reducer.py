"""The interface between a reduce attempt and its application: merged input and a replicated output file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from schedbed.tasks.attempt_status import StatusFile
from schedbed.tasks.blockfile import Buffer
from schedbed.tasks.node_client.node import AttemptNode, Output
from schedbed.tasks.shuffle import Shuffle
from schedbed.tasks.specs import AttemptSpec
from schedbed.tasks.spill import Run, buffer_bytes, merge_runs
from schedbed.tasks.spill_formats import RunFormat

SHUFFLE_BUFFER_BYTES = 512 * 2**20


class ReduceTask:
    """A running reduce attempt, with its specification and the node that it runs on."""

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
        self.root = root
        self.scratch = root / "attempts" / spec.attempt
        self._memory_bytes = buffer_bytes(
            params.get("shuffle_buffer", SHUFFLE_BUFFER_BYTES), spec.memory_bytes
        )

    def copy(self) -> list[Run]:
        """Copy the reduce's partition of every map's output. Return sorted runs."""
        self.progress.report("shuffle", 0.0)
        runs = Shuffle(self.spec, self.node, self.scratch, self._memory_bytes, self.progress).run()
        self.node.meter.mark("shuffle_end", self.progress.now_s())
        return runs

    def merged(self, form: RunFormat) -> Iterator[Buffer]:
        """Copy and merge the map outputs. Yield the sorted input in pieces."""
        runs = self.copy()
        total, done = max(1, sum(map(len, runs))), 0
        self.progress.report("sort", 1 / 3)
        first = True
        for piece in merge_runs(form, runs, self._memory_bytes, self.node.disk_stream()):
            if first:
                self.node.meter.mark("sort_end", self.progress.now_s())
                first = False
            yield piece
            done += len(piece)
            self.node.meter.add("records_in", form.records(piece))
            self.progress.report("reduce", (2 + done / total) / 3)
        if first:
            self.node.meter.mark("sort_end", self.progress.now_s())

    def create(self) -> Output:
        """Create the output file for writing."""
        assert self.spec.output is not None, "a reduce always has an output"
        return self.node.create(self.spec.output, self.spec.replication, self.spec.block_bytes)

    def write_merged(self, form: RunFormat) -> None:
        """Write the merged input of the reduce unchanged as its output. `form` is the format of the map outputs."""
        output = self.create()
        for piece in self.merged(form):
            output.write(piece)
            self.node.meter.add("records_out", form.records(piece))
        output.close()
