"""The choice of nodes for the blocks of many files, on arrays and with compiled code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from schedbed.cluster.blocks.live_nodes import NodeIndex
from schedbed.cluster.blocks.placement import DRAWS
from schedbed.scheduler.simulate.compiled.arrays import Floats, Ints, Values
from schedbed.scheduler.simulate.compiled.jit import compiled, entry, twin_of
from schedbed.scheduler.simulate.compiled.placing.twisters import first_draws
from schedbed.tasks.chance import Coin, chance, keys_of, reseed
from schedbed.tasks.specs import NodeId

DRAWS_EACH = 8
"""The number of random numbers that are computed at first for each block of an output."""
BLOCKS_AT_ONCE = 1 << 14
"""The number of blocks whose random numbers are kept at a time."""


class BlockPlacer:
    """Nodes as arrays, and the choice of nodes for blocks as by `place_new` and `place_file`.

    Until `put_back` writes the loads to `index`, nothing else may use it. Chosen nodes are places in `names`.
    """

    def __init__(self, index: NodeIndex, seed: int) -> None:
        self._index, self._seed = index, seed
        self._luck = chance(seed)
        self.names = list(index.names)
        self.place_of = {name: place for place, name in enumerate(self.names)}
        number_of = {rack: number for number, rack in enumerate(index.by_rack)}
        pools = [[self.place_of[name] for name in names] for names in index.by_rack.values()]
        self._loads: Values = np.array([index.load_bytes[name] for name in self.names], np.int64)
        self._field = Field(
            rack=np.array([number_of[index.racks[name]] for name in self.names], np.int64),
            load_bytes=self._loads,
            pool=np.array([*range(len(self.names)), *(place for pool in pools for place in pool)], np.int64),
            pool_at=np.cumsum([len(self.names), *map(len, pools)], dtype=np.int64),
            total_bytes=np.array([index.total_bytes], np.int64),
        )

    def takes(self, count: int, size_bytes: int) -> bool:
        """Return whether blocks may be placed here: enough nodes, and bytes exact in calculations."""
        total_bytes = int(self._field.total_bytes[0]) + count * size_bytes
        most_bytes = int(self._loads.max(initial=0)) if total_bytes >= EXACT else 0
        return 1 <= count <= len(self.names) and most_bytes + size_bytes < EXACT and total_bytes < 1 << 61

    def numbers_of(self, nodes: Sequence[NodeId]) -> Values:
        """Return places of nodes, `NOBODY` for unknown ones."""
        return np.array([self.place_of.get(node, NOBODY) for node in nodes], np.int64)

    def place_outputs(self, blocks: Iterable[str], writers: Values, lengths: Values, count: int) -> Values:
        """Return each output block's nodes, as `place_new`. The names in `blocks` determine the chance."""
        chosen = np.empty((len(lengths), count), np.int64)
        names = iter(blocks)
        for low in range(0, len(lengths), BLOCKS_AT_ONCE):
            part = slice(low, low + BLOCKS_AT_ONCE)
            keys = keys_of(self._seed, ("place",), islice(names, BLOCKS_AT_ONCE), 0)
            self._place_with_keys(keys, writers[part], lengths[part], chosen[part])
        return chosen

    def _place_with_keys(
        self, keys: Sequence[bytes], writers: Values, lengths: Values, chosen: Values
    ) -> None:
        """Choose nodes for blocks whose random generators have the keys `keys`, and store them in `chosen`."""
        draws, used, done, each = first_draws(keys, DRAWS_EACH), np.zeros(1, np.int64), 0, DRAWS_EACH
        while True:
            rest = draws[done * each :], each, writers[done:], lengths[done:], chosen[done:], used
            done += place_blocks(self._field, *rest)
            if done == len(keys):
                return
            more = first_draws(keys[done : done + 1], _most_draws(chosen.shape[1]))
            block = slice(done, done + 1)
            one = more, len(more), writers[block], lengths[block], chosen[block], used
            done += place_blocks(self._field, *one)

    def place_input(self, block: str, lengths: Values, count: int) -> Values:
        """Return each block's nodes of a new file, as `place_file`. `block` is its first."""
        luck, used, done = self._luck, np.zeros(1, np.int64), 0
        reseed(luck, self._seed, "place", block, "file")
        chosen = np.empty((len(lengths), count), np.int64)
        draws = _random_numbers(luck, (min(count, 3) + 1) * min(len(lengths), BLOCKS_AT_ONCE))
        nobody = np.zeros(0, np.int64)
        while True:
            done += place_blocks(self._field, draws, 0, nobody, lengths[done:], chosen[done:], used)
            if done == len(lengths):
                return chosen
            more = _most_draws(count) + count * min(len(lengths) - done, BLOCKS_AT_ONCE)
            draws = np.concatenate([draws[int(used[0]) :], _random_numbers(luck, more)])
            used[0] = 0

    def put_back(self) -> None:
        """Write the loads to the index from which the arrays were made."""
        self._index.load_bytes.update(zip(self.names, self._loads.tolist(), strict=True))
        self._index.total_bytes = int(self._field.total_bytes[0])


def _random_numbers(luck: Coin, count: int) -> Values:
    random = luck.random
    return np.array([random() for _ in range(count)], float)


def _most_draws(count: int) -> int:
    """Return the most random numbers that a block's nodes can need."""
    return 3 + 2 * count * (DRAWS + 1)


def compile_placing() -> None:
    """Make the machine code of the functions that place blocks, unless the cache has it."""
    placer = BlockPlacer(NodeIndex(), 0)
    placer._place_with_keys([], np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, 1), np.int64))
    first_draws([b"key"], 1)


# Compiled choice of the nodes for new blocks by HDFS's rack rule. Mirrors `cluster.blocks.placement`.
#
# A node is a number: its place in the sorted names of all live nodes.

EXACT = 1 << 53
"""The number of bytes up to which every number of bytes is a float."""
NOBODY = -1


class Field(NamedTuple):
    """The live nodes as arrays, like `NodeIndex`.

    `pool` has all nodes, then those of each rack r in `pool[pool_at[r]:pool_at[r + 1]]`.
    """

    rack: Ints
    load_bytes: Ints
    pool: Ints
    pool_at: Ints
    total_bytes: Ints


class Luck(NamedTuple):
    """The random numbers of one generator, and the number of those that were used, which may be more."""

    draws: Floats
    used: Ints


@compiled
def _draw(luck: Luck, count: int) -> int:
    """Return a random number below `count`, or 0 if no draw is left."""
    used = luck.used[0]
    luck.used[0] = used + 1
    return int(luck.draws[used] * count) if used < len(luck.draws) else 0


@compiled
def most_bytes_of(field: Field) -> float:
    """Return twice the mean load of the nodes, rounded to the nearest float as Python does."""
    nodes, twice = len(field.rack), 2 * field.total_bytes[0]
    if twice < EXACT:
        return twice / nodes
    return twice // nodes + (twice % nodes) / nodes


@compiled
def _is_taken(node: int, chosen: Ints, made: int) -> bool:
    for place in range(made):  # noqa: SIM110 -- compiled more simply than `any`
        if chosen[place] == node:
            return True
    return False


@twin_of("schedbed.cluster.blocks.placement:_Choice._any")
@compiled
def _any_node(
    field: Field,
    luck: Luck,
    chosen: Ints,
    made: int,
    low: int,
    high: int,
    but_rack: int,
    most_bytes: float,
    draws: int,
) -> int:
    """Return a random node of `pool[low:high]`, not chosen and not on `but_rack`, or `NOBODY`."""
    count, rack, load_bytes = high - low, field.rack, field.load_bytes
    for _ in range(draws if count else 0):
        node = field.pool[low + _draw(luck, count)]
        if _is_taken(node, chosen, made) or load_bytes[node] > most_bytes:
            continue
        if rack[node] != but_rack:
            return node
    left = light = 0
    for place in range(low, high):
        node = field.pool[place]
        if rack[node] != but_rack and not _is_taken(node, chosen, made):
            left += 1
            light += 1 if load_bytes[node] <= most_bytes else 0
    if not left:
        return NOBODY
    wanted = _draw(luck, light or left)
    for place in range(low, high):
        node = field.pool[place]
        if rack[node] != but_rack and not _is_taken(node, chosen, made):
            if light and load_bytes[node] > most_bytes:
                continue
            if not wanted:
                return node
            wanted -= 1
    return NOBODY


@twin_of("schedbed.cluster.blocks.placement:_complete", "schedbed.cluster.blocks.placement:_Choice.next_hdfs")
@compiled
def _complete(
    field: Field, luck: Luck, chosen: Ints, made: int, writer: int, most_bytes: float, draws: int
) -> None:
    """Complete a block's nodes; there must be enough. `draws` precede a count of suitable nodes."""
    rack, nodes = field.rack, len(field.rack)
    while made < len(chosen):
        node = NOBODY
        if not made:
            node = writer
        else:
            are_alike = True
            for place in range(1, made):
                are_alike = are_alike and rack[chosen[place]] == rack[chosen[0]]
            if are_alike and len(field.pool_at) > 2:
                but_rack = rack[chosen[0]]
                node = _any_node(field, luck, chosen, made, 0, nodes, but_rack, most_bytes, draws)
                draws = DRAWS
            elif made == 2 and not are_alike:
                home = rack[chosen[1]]
                low, high = field.pool_at[home], field.pool_at[home + 1]
                node = _any_node(field, luck, chosen, made, low, high, NOBODY, most_bytes, draws)
                draws = DRAWS
        if node == NOBODY:
            node = _any_node(field, luck, chosen, made, 0, nodes, NOBODY, most_bytes, draws)
            draws = DRAWS
        chosen[made] = node
        made += 1


@twin_of("schedbed.cluster.blocks.placement:_first_draws")
@compiled
def _first_nodes(field: Field, luck: Luck, chosen: Ints, writer: int, most_bytes: float) -> int:
    """Draw the first three replicas' nodes until one is unsuitable. Return their number."""
    rack, load_bytes, nodes = field.rack, field.load_bytes, len(field.rack)
    first = writer
    if writer == NOBODY:
        first = _draw(luck, nodes)
        if load_bytes[first] > most_bytes:
            return 0
    chosen[0] = first
    if len(chosen) == 1:
        return 1
    second = _draw(luck, nodes)
    home = rack[second]
    if home == rack[first] or load_bytes[second] > most_bytes:
        return 1
    chosen[1] = second
    if len(chosen) == 2:
        return 2
    low = field.pool_at[home]
    third = field.pool[low + _draw(luck, field.pool_at[home + 1] - low)]
    if third == second or load_bytes[third] > most_bytes:
        return 2
    chosen[2] = third
    return 3


@twin_of(
    "schedbed.cluster.blocks.placement:place_new",
    "schedbed.cluster.blocks.placement:place_file",
    "schedbed.cluster.blocks.placement:_complete_drawn",
)
@compiled
def _place_block(field: Field, luck: Luck, chosen: Ints, writer: int, of_file: bool) -> None:
    """Store in `chosen` the nodes for a new block, as `place_new` does, or `place_file` with `of_file`."""
    most_bytes = most_bytes_of(field)
    if not of_file and len(field.pool_at) <= 2:
        _complete(field, luck, chosen, 0, writer, most_bytes, DRAWS)
        return
    made = _first_nodes(field, luck, chosen, writer, most_bytes)
    draws = DRAWS - 1 if made < 3 and not of_file else DRAWS
    _complete(field, luck, chosen, made, writer, most_bytes, draws)


@compiled
def _charge(field: Field, chosen: Ints, length: int) -> None:
    for place in range(len(chosen)):
        field.load_bytes[chosen[place]] += length
    field.total_bytes[0] += length * len(chosen)


@entry
def place_blocks(
    field: Field,
    draws: Values,
    draws_each: int,
    writers: Values,
    lengths: Values,
    chosen: Any,
    used: Values,
) -> int:
    """Choose nodes for blocks in turn (rows of `chosen`), and add the lengths to their loads.

    Blocks share `draws`, counted in `used`, or each has `draws_each`. `writers` is empty for an input. Return
    the number of blocks for which the random numbers sufficed.
    """
    for block in range(len(lengths)):
        before = used[0]
        writer = writers[block] if len(writers) else NOBODY
        if draws_each:
            used[0] = 0
            own = draws[block * draws_each : (block + 1) * draws_each]
            _place_block(field, Luck(own, used), chosen[block], writer, False)
            had = draws_each
        else:
            _place_block(field, Luck(draws, used), chosen[block], writer, True)
            had = len(draws)
        if used[0] > had:
            used[0] = before
            return block
        _charge(field, chosen[block], lengths[block])
    return len(lengths)


@entry
def place_files(
    field: Field, draws: Values, draws_each: int, ends: Values, lengths: Values, chosen: Any
) -> int:
    """Choose nodes for input files, as `place_blocks` for one. `ends` has each file's end in `lengths`.

    A file has `draws_each` random numbers for each block, and as many more. Return the number of files before
    the first that needs more.
    """
    used = np.zeros(1, np.int64)
    begin = 0
    for file in range(len(ends)):
        end = ends[file]
        own = draws[draws_each * (begin + file) : draws_each * (end + file + 1)]
        used[0] = 0
        for block in range(begin, end):
            _place_block(field, Luck(own, used), chosen[block], NOBODY, True)
            _charge(field, chosen[block], lengths[block])
        if used[0] > len(own):
            for block in range(begin, end):
                _charge(field, chosen[block], -lengths[block])
            return file
        begin = end
    return len(ends)
