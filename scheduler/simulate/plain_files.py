"""Complete files that the NameNode has not been told about, without objects.

It has objects for each block and replica, maybe millions, which many simulations need only at the end.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain, groupby, pairwise, repeat
from operator import add
from typing import NamedTuple

import numpy as np

from schedbed.cluster.blocks.block_errors import NoNodes
from schedbed.cluster.blocks.memory_journal import Life
from schedbed.cluster.blocks.namenode import NameNode
from schedbed.cluster.blocks.namespace import block_id
from schedbed.cluster.blocks.placement import place_file, place_new
from schedbed.scheduler.engines import Engine, Placer, Values
from schedbed.scheduler.simulate.placed_files import PlacedFile
from schedbed.scheduler.simulate.row_frames import Column, Text
from schedbed.tasks.chance import chance, reseed
from schedbed.tasks.specs import NodeId

CAUSES = ("input", "write", "pipeline")
"""The causes of replicas of plain files, as recorded in the blocks table."""
_LAST_DIGITS = [f"{number:03d}" for number in range(1000)]


@dataclass(slots=True)
class _Files:
    """The columns of a table of files, and of a table of the files' blocks."""

    paths: list[str] = field(default_factory=list)
    made_s: list[float] = field(default_factory=list)
    is_input: list[bool] = field(default_factory=list)
    replication: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)  # By file: the number of blocks up to its last one.
    lengths: array[int] = field(default_factory=lambda: array("q"))  # By block, in bytes.
    copies: array[int] = field(default_factory=lambda: array("i"))  # By block: the number of its replicas.
    holders: array[int] = field(default_factory=lambda: array("i"))  # By replica: the number of its node.


class WrittenFiles(NamedTuple):
    """Output files as columns: `placed_as` determines the chance, `counts` are blocks, `lengths` those of all."""

    made_s: Sequence[float]
    paths: Sequence[str]
    placed_as: Sequence[str]
    writers: Sequence[NodeId]
    counts: Values
    lengths: Values


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainReplicas:
    """The blocks table's rows for plain files, a `RowRanges`. Row i is about the replica `order[i]`.

    `node`, `block` (after `first`) and `cause` are by replica, `file` and `lengths` by block, `paths` and
    `made_s` by file.
    """

    order: Values
    node: Values
    block: Values
    cause: Values
    file: Values
    nodes: Sequence[NodeId]
    paths: Values
    made_s: Values
    lengths: Values
    first: int

    def __len__(self) -> int:
        return len(self.order)

    def between(self, low: int, high: int) -> Iterator[dict[str, Column]]:
        """Implement `RowRanges.between`. A batch has all rows of some nodes, about `ROWS_AT_ONCE` rows."""
        for begin, end in _batches(np.bincount(self.node)):
            rows = self.order[max(begin, low) : min(end, high)]
            if not len(rows):
                continue
            blocks = self.block[rows]
            files = self.file[blocks]
            yield {
                "block": block_ids(self.first + blocks),
                "file": self.paths[files].tolist(),
                "node": Text(self.node[rows], self.nodes),
                "bytes": self.lengths[blocks],
                "added": self.made_s[files],
                "removed": np.full(len(rows), np.nan),
                "cause": Text(self.cause[rows], CAUSES),
            }


class PlainFiles:
    """Complete files with all replicas, placed by HDFS's rule when added. `tell` tells the NameNode `names`.

    Its index has the loads at once. Between the first `add_input` or `add_output` and `tell`, only its
    methods that ask for orders or changes of replicas may be called.
    """

    def __init__(self, names: NameNode, seed: int) -> None:
        self._names, self._seed = names, seed
        self._luck = chance(seed)
        self._files = _Files()
        self._first = 0  # Number of the first block.
        self._nodes: list[NodeId] = []  # By number: all nodes that ever held a replica.
        self._number_of: dict[NodeId, int] = {}
        self._placer: Placer | None = None  # It has the loads of the nodes, if it is there.
        self._placed_numbers = np.zeros(0, np.int32)  # By the placer's number of a node.

    def __len__(self) -> int:
        return len(self._files.paths)

    def add_input(self, path: str, lengths: Sequence[int], replication: int) -> PlacedFile:
        """Add an input file at time 0."""
        return self.add_inputs([(path, lengths)], replication)[0]

    def add_inputs(self, files: Sequence[tuple[str, Sequence[int]]], replication: int) -> list[PlacedFile]:
        """Add (path, block sizes), as `add_input`. Fast after `place_many`."""
        made: list[PlacedFile] = []
        for has_blocks, group in groupby(files, key=lambda file: len(file[1]) > 0):
            some = list(group)
            sizes = np.fromiter(chain.from_iterable(lengths for _, lengths in some), np.int64)
            if self._placer is not None and has_blocks and self._placer.takes(replication, int(sizes.sum())):
                made += self._add_placed(some, sizes, replication, self._placer)
            elif len(some) > 1:
                made += [self.add_input(path, lengths, replication) for path, lengths in some]
            else:
                made.append(self._add_alone(*some[0], replication))
        return made

    def _add_alone(self, path: str, lengths: Sequence[int], replication: int) -> PlacedFile:
        """Add an input file whose nodes are chosen without the fast engine."""
        number = self._next_block()
        if lengths:
            self._drop_placer()
        blocks = [block_id(number)] if lengths else []  # Only the first one has an effect on the placement.
        placed = place_file(self._names.loads, replication, blocks, lengths, seed=self._seed)
        copies = np.fromiter(map(len, placed), np.int32, len(placed))
        holders = np.array(self._numbers(placed), np.int32)
        sizes = np.array(lengths, np.int64)
        file = PlacedFile(
            path=path,
            first=number,
            lengths=lengths,
            nodes=self._nodes,
            holders=holders,
            ends=np.cumsum(copies, dtype=np.int32),
            offsets=np.cumsum(sizes) - sizes,
        )
        self._add([path], [0.0], [len(sizes)], sizes, replication, copies, holders, is_input=True)
        return file

    def _add_placed(
        self,
        inputs: Sequence[tuple[str, Sequence[int]]],
        sizes: Values,
        replication: int,
        placer: Placer,
    ) -> list[PlacedFile]:
        """Add input files with blocks on nodes that `placer` chooses. `sizes` are those of all their blocks."""
        counts = [len(lengths) for _, lengths in inputs]
        ends = np.cumsum(counts)
        firsts = self._next_block() + ends - counts
        chosen = placer.place_inputs(block_ids(firsts), ends, sizes, replication)
        holders: Values = self._placed_numbers[chosen.ravel()]
        paths, copies = [path for path, _ in inputs], np.full(len(sizes), replication, np.int32)
        self._add(paths, [0.0] * len(paths), counts, sizes, replication, copies, holders, is_input=True)
        copy_ends = np.arange(1, max(counts) + 1, dtype=np.int32) * np.int32(replication)
        before = np.cumsum(sizes) - sizes
        return [
            PlacedFile(
                path=path,
                first=number,
                lengths=lengths,
                nodes=self._nodes,
                holders=holders[replication * low : replication * high],
                ends=copy_ends[: high - low],
                offsets=before[low:high] - before[low],
            )
            for number, (path, lengths), (low, high) in zip(
                firsts.tolist(), inputs, pairwise([0, *ends.tolist()]), strict=True
            )
        ]

    def _numbers(self, places: Sequence[Sequence[NodeId]]) -> list[int]:
        """Return the numbers of the nodes of all replicas. A node that has none yet gets the next one."""
        known = self._number_of
        try:
            return [known[node] for node in chain.from_iterable(places)]
        except KeyError:
            for node in chain.from_iterable(places):
                if node not in known:
                    known[node] = len(known)
                    self._nodes.append(node)
            return [known[node] for node in chain.from_iterable(places)]

    def add_output(
        self,
        now_s: float,
        path: str,
        lengths: Sequence[int],
        replication: int,
        *,
        writer: NodeId,
        placed_as: str,
    ) -> None:
        """Add a file written by `writer`. Raises NoNodes.

        A live run renames the temporary `placed_as`, by which the nodes are therefore chosen.
        """
        self._next_block()
        self._drop_placer()
        loads, luck, places = self._names.loads, self._luck, list[list[NodeId]]()
        for index, length in enumerate(lengths):
            reseed(luck, self._seed, "place", f"{placed_as}:{index}", 0)
            nodes = place_new(loads, replication, luck, writer)
            if not nodes:
                raise NoNodes(f"{path}: no node can take a block")
            loads.charge_all(nodes, length)
            places.append(nodes)
        copies = np.fromiter(map(len, places), np.int32, len(places))
        holders = np.array(self._numbers(places), np.int32)
        sizes = np.array(lengths, np.int64)
        self._add([path], [now_s], [len(sizes)], sizes, replication, copies, holders, is_input=False)

    def add_outputs(self, outputs: WrittenFiles, replication: int) -> None:
        """Add output files, as `add_output`. Fast after `place_many`. Raises NoNodes."""
        made_s, paths, placed_as, writers, counts, lengths = outputs
        if self._placer is None or not self._placer.takes(replication, int(lengths.sum())):
            ends = np.cumsum(counts).tolist()
            for file, (low, high) in enumerate(pairwise([0, *ends])):
                blocks, writer, name = lengths[low:high].tolist(), writers[file], placed_as[file]
                self.add_output(made_s[file], paths[file], blocks, replication, writer=writer, placed_as=name)
            return
        self._next_block()
        numbers = counts.tolist()
        names = (
            f"{name}:{index}"
            for name, count in zip(placed_as, numbers, strict=True)
            for index in range(count)
        )
        by_block = np.repeat(self._placer.numbers_of(writers), counts)
        chosen = self._placer.place_outputs(names, by_block, lengths, replication)
        copies: Values = np.full(len(chosen), replication, np.int32)
        holders: Values = self._placed_numbers[chosen.ravel()]
        self._add(paths, made_s, numbers, lengths, replication, copies, holders, is_input=False)

    def place_many(self, engine: Engine) -> None:
        """Let `engine` choose nodes from now on, until the next `tell`, if it does. This pays for many blocks."""
        if self._placer is None and (placer := engine.placer(self._names.loads, self._seed)) is not None:
            self._placer = placer
            self._placed_numbers = np.array(self._numbers([self._placer.names]), np.int32)

    def _drop_placer(self) -> None:
        """Give the NameNode's index the loads again."""
        if self._placer is not None:
            self._placer.put_back()
            self._placer = None

    def _next_block(self) -> int:
        """Return the next block's number, after the NameNode's and these files'."""
        if not self._files.paths:
            self._first = self._names.next_block_number()
        return self._first + len(self._files.lengths)

    def _add(
        self,
        paths: Sequence[str],
        made_s: Sequence[float],
        counts: Sequence[int],
        lengths: Values,
        replication: int,
        copies: Values,
        holders: Values,
        *,
        is_input: bool,
    ) -> None:
        """Add files with `counts` blocks each. The arrays are about the blocks of all of them."""
        files = self._files
        files.ends.extend(map(add, accumulate(counts), repeat(len(files.lengths))))
        files.paths.extend(paths)
        files.made_s.extend(made_s)
        files.is_input.extend([is_input] * len(paths))
        files.replication.extend([replication] * len(paths))
        files.lengths.frombytes(lengths.tobytes())
        files.copies.frombytes(copies.tobytes())
        files.holders.frombytes(holders.tobytes())
        if (copies != replication).any():
            self.tell()  # The NameNode has to order copies.

    def tell(self) -> None:
        """Tell the NameNode about all files, in the order in which they were added, and forget them."""
        self._drop_placer()
        files, self._files = self._files, _Files()
        begin = 0
        names = list(map(self._nodes.__getitem__, files.holders))
        ends = pairwise(accumulate(files.copies, initial=0))
        holders = [names[low:high] for low, high in ends]
        for path, made_s, is_input, replication, end in zip(
            files.paths, files.made_s, files.is_input, files.replication, files.ends, strict=True
        ):
            lengths, places = files.lengths[begin:end].tolist(), holders[begin:end]
            self._names.store(made_s, path, replication, lengths, places, is_input=is_input)
            begin = end

    def replicas(self) -> PlainReplicas:
        """Return the rows of all replicas, by node, the one with the oldest first."""
        files = self._files
        copies = np.array(files.copies, np.int64)
        starts = np.cumsum(copies) - copies
        block = np.repeat(np.arange(len(copies), dtype=np.int32), copies)
        nodes, node = self._by_age(np.array(files.holders))
        narrow = node.astype(np.uint16) if len(nodes) < 1 << 16 else node  # Sorted faster.
        file = np.repeat(np.arange(len(files.paths)), np.diff(np.array(files.ends, np.int64), prepend=0))
        is_input = np.array(files.is_input, bool)[file]
        cause = np.where(is_input[block], 0, np.where(np.arange(len(block)) == starts[block], 1, 2))
        return PlainReplicas(
            order=np.argsort(narrow, kind="stable").astype(np.int32),
            node=node,
            block=block,
            cause=cause.astype(np.int8),
            file=file,
            nodes=nodes,
            paths=np.array(files.paths, object),
            made_s=np.array(files.made_s, float),
            lengths=np.array(files.lengths, np.int64),
            first=self._first,
        )

    def _by_age(self, holders: Values) -> tuple[list[NodeId], Values]:
        """Return the nodes by their oldest replica, and each replica's place among them."""
        first = np.full(len(self._nodes), len(holders))
        first[holders[::-1]] = np.arange(len(holders))[::-1]  # The last one that is assigned remains.
        numbers = np.argsort(first, kind="stable")[: int((first < len(holders)).sum())]
        place_of = np.zeros(len(self._nodes), np.int32)
        place_of[numbers] = np.arange(len(numbers))
        return [self._nodes[number] for number in numbers.tolist()], place_of[holders]


def block_ids(numbers: Values) -> list[str]:
    """Return the ids of the blocks with these numbers, as `block_id` does. Faster for many blocks."""
    if not len(numbers):
        return []
    high, low = np.divmod(numbers, 1000)
    first = int(high.min())
    begins = [block_id(1000 * number)[:-3] for number in range(first, int(high.max()) + 1)]
    ends = map(_LAST_DIGITS.__getitem__, low.tolist())
    return list(map(add, map(begins.__getitem__, (high - first).tolist()), ends))


def _batches(counts: np.ndarray) -> Iterator[tuple[int, int]]:
    """Yield ranges of at least `ROWS_AT_ONCE` rows (the last has the rest), without dividing a group."""
    low = high = 0
    for count in counts.tolist():
        high += count
        if high - low >= ROWS_AT_ONCE:
            yield low, high
            low = high
    if high > low:
        yield low, high


# Columns of the blocks table for the replicas that exist at the end of a simulation. There may be millions
# of them.

ROWS_AT_ONCE = 250_000


def columns_of_lives(
    living: Iterable[tuple[NodeId, Mapping[str, Life]]], files: Sequence[tuple[str, Iterable[str]]]
) -> Iterator[dict[str, Column]]:
    """Yield rows of all replicas as columns, about `ROWS_AT_ONCE` at a time, of (node, {block: replica})."""
    file_of = {block: place for place, (_, blocks) in enumerate(files) for block in blocks}
    paths = [*(path for path, _ in files), ""]
    nodes: list[NodeId] = []
    held: list[Mapping[str, Life]] = []
    rows = 0
    for node, lives in living:
        nodes.append(node)
        held.append(lives)
        rows += len(lives)
        if rows >= ROWS_AT_ONCE:
            yield _columns(nodes, held, file_of, paths)
            nodes, held, rows = [], [], 0
    if rows:
        yield _columns(nodes, held, file_of, paths)


def _columns(
    nodes: Sequence[NodeId],
    held: Sequence[Mapping[str, Life]],
    file_of: Mapping[str, int],
    paths: Sequence[str],
) -> dict[str, Column]:
    blocks = list(chain.from_iterable(held))
    lives = list(chain.from_iterable(each.values() for each in held))
    distinct = {id(life): life for life in lives}  # Neighboring blocks share one object.
    place = {key: number for number, key in enumerate(distinct)}
    lengths, added, causes = zip(*distinct.values(), strict=True)
    codes = np.array([place[id(life)] for life in lives])
    return {
        "block": blocks,
        "file": Text(np.array([file_of.get(block, -1) for block in blocks]), paths),
        "node": Text(np.repeat(np.arange(len(nodes)), [len(each) for each in held]), nodes),
        "bytes": np.array(lengths, np.int64)[codes],
        "added": np.array(added, float)[codes],
        "removed": np.full(len(blocks), np.nan),
        "cause": Text(codes, causes),
    }
