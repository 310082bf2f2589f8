"""Counts of one-way links of a graph, edges i -> j without an edge j -> i (verma2011, section 7.1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import groupby

import numpy as np

from schedbed.tasks.appkit.app import App
from schedbed.tasks.appkit.cost_law import AppCosts, Law
from schedbed.tasks.appkit.counting import KeyCounts, merged_counts, write_lines
from schedbed.tasks.appkit.part_files import Parts, Pieces, Ran, difference, keyed, lines_of
from schedbed.tasks.chance import array_chance, chance
from schedbed.tasks.errors import BadInput
from schedbed.tasks.mapper import MapTask
from schedbed.tasks.reducer import ReduceTask
from schedbed.tasks.spill_formats import CountLines
from schedbed.tasks.workloads.input_data import PIECE_BYTES, Vocabulary, piece_sizes, zipf_table

NODES = 50_000


class LinkCounts(KeyCounts):
    """A map's collector (the store of its output) for edges of a graph.

    A key is the two ends of an edge and its direction. The edges of both directions between two graph nodes
    go to the same reduce.
    """

    def group(self, key: bytes) -> bytes:
        """Return an edge's ends without the direction."""
        return key[:-2]

    def feed(self, chunk: bytes) -> None:
        """Add the edges of whole lines; # starts a comment. Raises BadInput for another line."""
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


def edges(size: int, seed: int) -> Iterator[bytes]:
    """Yield about `size` bytes of a random power-law graph, one edge (two node numbers) per line."""
    table = zipf_table(NODES)
    order = list(range(NODES))
    chance(seed, "edges order").shuffle(order)  # Otherwise the most linked node would be number 0.
    nodes = Vocabulary([b"%d" % node for node in order])
    for number, wanted in enumerate(piece_sizes(size, PIECE_BYTES)):
        picks, _ = nodes.draw(table, array_chance(seed, "edges", number), wanted)
        piece = nodes.join(picks, np.tile(np.frombuffer(b"\t\n", dtype=np.uint8), len(picks) // 2))
        cut = piece.rfind(b"\n", 0, wanted) + 1
        if cut or number == 0:
            yield piece[: cut or piece.find(b"\n") + 1]


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


def check_twitter(ran: Ran, text: Pieces, parts: Parts) -> str | None:
    """Check the numbers of one-way and mutual links. Returns the first difference, or None."""
    # The warm process imports this file for its attempts, which need no hashes.
    from hashlib import blake2b

    directions: tuple[list[bytes], list[bytes]] = ([], [])
    for line in lines_of(text):
        ends = line.split()
        if len(ends) == 2 and ends[0] != ends[1]:
            pair = b"\t".join(sorted(ends))
            directions[ends[0] > ends[1]].append(blake2b(pair, digest_size=8).digest())
    up, down = (np.unique(np.frombuffer(b"".join(side), dtype="<u8")) for side in directions)
    mutual = len(np.intersect1d(up, down, assume_unique=True))
    wanted = {b"asymmetric": len(up) + len(down) - 2 * mutual, b"mutual": mutual}
    found: Counter[bytes] = Counter(dict.fromkeys(wanted, 0))
    for pieces in parts:
        found.update(keyed([pieces]))
    return difference(wanted, found)


APP = App(
    name="twitter",
    paper="verma2011",
    summary="counts one-way and mutual follower links in a list of edges i j, where repeated edges "
    "count once; each part has lines asymmetric<TAB>links and mutual<TAB>pairs, to be added "
    "up",
    input="edges",
    reduces="needed",
    run_map=_map,
    run_reduce=_reduce,
    check=check_twitter,
    costs=AppCosts(
        map_start_s=0.0,
        map_cpu_s=1.278e-07,
        map_sort_s=9.209e-08,
        map_output=Law(4.313, 0.8966),
        map_records=0.08639,
        reduce_start_s=0.0,
        reduce_sort_s=4.255e-08,
        reduce_cpu_s=6.243e-08,
        output=Law(28.87, 0.04811),
        note="its own map and reduce code on 8 MiB of generated edges, 2 reduces; the fastest of 3 on a 2-core VM",
    ),
    generate=edges,
)
