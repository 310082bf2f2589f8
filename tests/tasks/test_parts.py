"""Maps split into parts: the parts own all input once, costs add up, and outputs are the same bytes."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from schedbed.tasks.appkit.app_catalogue import generate
from schedbed.tasks.apps.sort import sample_boundaries
from schedbed.tasks.node_client.node import MapOutputAt
from schedbed.tasks.parts import Part, cut
from schedbed.tasks.specs import Cost, Split, TaskKind
from tests.harness.memory_node import FakeCluster, FakeNode, a_spec

TEXT = b"".join(generate("text", 30_000, 3))
RECORDS = b"".join(generate("records", 40_000, 3))


def whole(length: int, offset: int = 1000, index: int = 3) -> Split:
    return Split(index=index, file="/in", offset=offset, length=length, block="b3", hosts=("n1",))


@given(length=st.integers(0, 10**12), share=st.floats(0, 1), total=st.integers(0, 10**9))
def test_both_parts_together_are_the_whole(length: int, share: float, total: int) -> None:
    parts = cut(whole(length), share)
    if parts is None:
        assert int(length * share) in (0, length)
        return
    first, rest = parts
    assert first.offset == 1000 and first.offset + first.length == rest.offset
    assert first.length > 0 and rest.length > 0 and first.length + rest.length == length
    assert first.of(total) + rest.of(total) == total and min(first.of(total), rest.of(total)) >= 0
    assert (first.after, rest.after) == (None, 3)


def test_a_quarter_costs_a_quarter() -> None:
    """A quarter of a map with 8 s of CPU that reads 1001 and writes 6 bytes has 2 s, 250 bytes and 1 byte.

    The other part has the rest.
    """
    parts = cut(whole(4000), 0.25)
    assert parts is not None
    cost = Cost(cpu_s=8, read_bytes=1001, write_bytes=6, duration_s=4)
    assert parts[0].cost(cost) == Cost(cpu_s=2, read_bytes=250, write_bytes=1, duration_s=1)
    assert parts[1].cost(cost) == Cost(cpu_s=6, read_bytes=751, write_bytes=5, duration_s=3)
    assert parts[1].split(17) == Split(
        index=17, file="/in", offset=2000, length=3000, block="b3", hosts=("n1",)
    )


class Job:
    """Runs a job on an in-memory node; the input's blocks end at `edges`.

    `splits` is a dictionary from a map's index to the share that is split off the map.
    """

    def __init__(self, root: Path, data: bytes, edges: Sequence[int], splits: dict[int, float]) -> None:
        self.cluster = FakeCluster(root, data, piece=700)
        blocks = [
            Split(index=index, file="/in", offset=low, length=high - low)
            for index, (low, high) in enumerate(pairwise(edges))
        ]
        self.tasks: dict[int, tuple[Split, Part | None]] = {block.index: (block, None) for block in blocks}
        for index, share in splits.items():
            parts = cut(blocks[index], share)
            if parts is not None:
                self.tasks[index] = parts[0].split(index), parts[0]
                self.tasks[len(self.tasks)] = parts[1].split(len(self.tasks)), parts[1]

    def run(self, app: str, reduces: int, params: dict[str, Any]) -> list[bytes]:
        """Run the job and return the parts of its output."""
        cluster, length = self.cluster, len(self.cluster.files["/in"])
        common = {"app": app, "params": params, "maps": len(self.tasks), "reduces": reduces}
        for index, (split, _) in self.tasks.items():
            where = {"file": "/in", "offset": split.offset, "length": split.length, "file_length": length}
            cluster.attempt(a_spec(TaskKind.MAP, index, **common, **where))
        for index in range(reduces):
            spec = a_spec(TaskKind.REDUCE, index, **common, output=f"/out/{index}")
            cluster.attempt(spec, self._node())
        return [cluster.files[f"/out/{index}"] for index in range(reduces)]

    def _node(self) -> FakeNode:
        node = self.cluster.node()
        node.outputs = [
            MapOutputAt(
                index=index,
                attempt=f"job_0001_m_{index:06d}_0",
                node="n1",
                after=None if part is None else part.after,
            )
            for index, (_, part) in reversed(self.tasks.items())
        ]
        return node


@settings(max_examples=20, deadline=None)
@given(
    app=st.sampled_from(["wordcount", "sort"]),
    splits=st.dictionaries(st.integers(0, 3), st.floats(0.001, 0.999), max_size=4),
)
def test_a_job_with_splits_gives_the_same_bytes(app: str, splits: dict[int, float]) -> None:
    """The output does not change if maps are split, even where half of the sorted records have equal keys.

    Only the order of the input distinguishes these records.
    """
    data = TEXT
    params: dict[str, Any] = {}
    if app == "sort":
        data = b"".join(
            b"same key!!" + RECORDS[at + 10 : at + 100] if at % 200 else RECORDS[at : at + 100]
            for at in range(0, len(RECORDS), 100)
        )
        params["boundaries"] = sample_boundaries(lambda at, size: data[at : at + size], len(data), 2, 7)
    edges = [0, 7_777, 15_000, 22_222, len(data)]
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        plain = Job(Path(one), data, edges, {}).run(app, 2, params)
        assert Job(Path(other), data, edges, splits).run(app, 2, params) == plain
