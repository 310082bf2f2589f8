"""An in-memory node for tests of attempts: files and map outputs are bytes in dictionaries."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from schedbed.tasks.attempt import run_on
from schedbed.tasks.attempt_status import Meter
from schedbed.tasks.blockfile import Buffer, Piece
from schedbed.tasks.node_client.http_requests import Charge
from schedbed.tasks.node_client.node import FetchFailed, MapOutputAt
from schedbed.tasks.specs import AttemptSpec, Cost, TaskKind

BIG = 4 * 2**30


class FakeOutput:
    """An output file that is stored in the node's dictionary when it is closed."""

    def __init__(self, node: FakeNode, path: str) -> None:
        self._node, self._path = node, path
        self._data = bytearray()

    def write(self, data: Buffer) -> None:
        self._data += data
        self._node.meter.add("output_bytes", len(data))

    def close(self) -> None:
        self._node.files[self._path] = bytes(self._data)


class FakeNode:
    """A node that serves files and map outputs from memory, in pieces of `piece` bytes.

    `broken` is a dictionary from map attempt to the number of fetches that will still fail.
    """

    def __init__(self, root: Path, files: dict[str, bytes] | None = None, piece: int = 1000) -> None:
        self.root = root
        self.files = files if files is not None else {}
        self.piece = piece
        self.meter = Meter()
        self.outputs: list[MapOutputAt] = []
        self.replacements: list[MapOutputAt] = []
        self.broken: dict[str, int] = {}
        self.reported: list[str] = []
        self.charged_bytes = 0

    def read(self, file: str, start: int, end: int) -> Iterator[Piece]:
        data = self.files[file]
        for low in range(start, end, self.piece):
            yield data[low : min(low + self.piece, end)]

    def create(self, path: str, replication: int, block_bytes: int) -> FakeOutput:
        return FakeOutput(self, path)

    def map_outputs(self, cursor: int) -> tuple[int, list[MapOutputAt], bool]:
        if self.reported:
            self.outputs += self.replacements
            self.replacements = []
        return len(self.outputs), self.outputs[cursor:], True

    def fetch(self, output: MapOutputAt, partition: int) -> Buffer:
        if self.broken.get(output.attempt, 0) > 0:
            self.broken[output.attempt] -= 1
            raise FetchFailed(output.attempt)
        folder = self.root / "mapout" / output.attempt
        offset, length = json.loads((folder / "index.json").read_text())[partition]
        return (folder / "data").read_bytes()[offset : offset + length]

    def fetch_failed(self, map_attempt: str) -> None:
        self.reported.append(map_attempt)

    def disk_stream(self) -> Charge:
        return self._charge_disk

    def _charge_disk(self, amount_bytes: int) -> None:
        self.charged_bytes += amount_bytes

    def need_room(self) -> None:
        pass


def a_spec(kind: TaskKind, index: int = 0, **changes: Any) -> AttemptSpec:
    """Return the specification of an attempt of job_0001; `changes` replace fields."""
    task = f"job_0001_{kind[0]}_{index:06d}"
    plain = AttemptSpec(
        attempt=f"{task}_0", task=task, job="job_0001", kind=kind, index=index, app="wordcount",
        params={}, seed=7, maps=1, reduces=1, memory_bytes=BIG,
    )  # fmt: skip
    return replace(plain, **changes)


def report_of(root: Path, spec: AttemptSpec) -> dict[str, Any]:
    """Return the report that an attempt has written below `root`."""
    return json.loads((root / "attempts" / spec.attempt / "report.json").read_text())


class FakeCluster:
    """Runs a whole job, attempt by attempt, on one node."""

    def __init__(self, root: Path, data: bytes = b"", piece: int = 1000) -> None:
        self.root = root
        self.files = {"/in": data}
        self.piece = piece
        self.reports: list[dict[str, Any]] = []

    def node(self) -> FakeNode:
        """Return a node for the next attempt, with all files and map outputs written so far."""
        node = FakeNode(self.root, self.files, self.piece)
        folders = sorted((self.root / "mapout").glob("*")) if (self.root / "mapout").exists() else []
        node.outputs = [
            MapOutputAt(index=int(f.name.split("_")[3]), attempt=f.name, node="n1") for f in folders
        ]
        return node

    def attempt(self, spec: AttemptSpec, node: FakeNode | None = None) -> dict[str, Any]:
        """Run one attempt and return its report. Raises AssertionError unless it succeeds."""
        code = run_on(spec, node or self.node(), self.root, 0.0, 0.001)
        report = report_of(self.root, spec)
        assert (code, report["state"]) == (0, "succeeded"), report["reason"]
        self.reports.append(report)
        return report

    def job(
        self,
        app: str,
        cuts: Sequence[int],
        reduces: int,
        params: dict[str, Any] | None = None,
        **changes: Any,
    ) -> list[bytes]:
        """Run maps over the input cut at the offsets `cuts`, then the reduces; return the output parts."""
        length = len(self.files["/in"])
        edges = sorted({0, length, *cuts})
        splits = list(pairwise(edges)) or [(0, 0)]
        common = {"app": app, "params": params or {}, "maps": len(splits), "reduces": reduces, **changes}
        for index, (low, high) in enumerate(splits):
            where = {"file": "/in", "offset": low, "length": high - low, "file_length": length}
            self.attempt(a_spec(TaskKind.MAP, index, **common, **where))
        for index in range(reduces):
            self.attempt(a_spec(TaskKind.REDUCE, index, **common, output=f"/out/{index}"))
        return [self.files[f"/out/{index}"] for index in range(reduces)]


__all__ = ["BIG", "Cost", "FakeCluster", "FakeNode", "a_spec", "report_of"]
