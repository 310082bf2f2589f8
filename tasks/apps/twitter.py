"""Counts the links of a graph that are not returned: edges i -> j without j -> i (verma2011, 7.1)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from schedbed.tasks.apps.app import App
from schedbed.tasks.apps.counting import KeyCounts, merged_counts, write_lines
from schedbed.tasks.errors import BadInput
from schedbed.tasks.mapper import MapTask
from schedbed.tasks.reducer import ReduceTask
from schedbed.tasks.spill_formats import CountLines


class LinkCounts(KeyCounts):
    """Takes edges by their two ends and their direction, as a map's collector; the two ends' edges meet."""

    def group(self, key: bytes) -> bytes:
        """The two ends without the direction."""
        return key[:-2]

    def feed(self, chunk: bytes) -> None:
        """Take the edges of a chunk of whole lines; empty ones and comments (#) are none."""
        counts = self.counts
        for line in chunk.split(b"\n"):
            fields = line.split()
            if len(fields) != 2:
                if not fields or fields[0].startswith(b"#"):
                    continue
                shown = line[:40].decode(errors="backslashreplace")
                raise BadInput(f"a line that is no edge: {shown!r}, expected two users")
            one, other = fields
            if one < other:
                counts[b"%b\t%b\t>" % (one, other)] += 1
            elif one > other:
                counts[b"%b\t%b\t<" % (other, one)] += 1


def _map(task: MapTask) -> None:
    task.collect("text", LinkCounts(task.spec.reduces), CountLines())


def _results(counts: Iterator[tuple[bytes, int]]) -> Iterator[bytes]:
    asymmetric = mutual = 0
    for _, directions in groupby(counts, key=lambda entry: entry[0][:-2]):
        if sum(1 for _ in directions) == 2:
            mutual += 1
        else:
            asymmetric += 1
    yield b"asymmetric\t%d" % asymmetric
    yield b"mutual\t%d" % mutual


def _reduce(task: ReduceTask) -> None:
    write_lines(task, _results(merged_counts(task)))


APP = App(
    name="twitter",
    paper="verma2011",
    summary="counts follower links i j that j does not return, of an edge list without regard to repeated edges; "
    "each part says asymmetric<TAB>links and mutual<TAB>pairs, the parts add up",
    input="edges",
    reduces="needed",
    run_map=_map,
    run_reduce=_reduce,
)
