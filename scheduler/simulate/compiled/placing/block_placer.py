"""The choice of nodes for the blocks of many files, on arrays and with compiled code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

import numpy as np

from schedbed.cluster.blocks.live_nodes import NodeIndex
from schedbed.cluster.blocks.placement import DRAWS
from schedbed.scheduler.simulate.compiled.arrays import Values
from schedbed.scheduler.simulate.compiled.placing.block_nodes import EXACT, NOBODY, Field, place_blocks
from schedbed.scheduler.simulate.compiled.placing.twisters import first_draws
from schedbed.tasks.chance import Coin, chance, keys_of, reseed
from schedbed.tasks.specs import NodeId

DRAWS_EACH = 8
"""The number of random numbers that are computed at first for each block of an output."""
BLOCKS_AT_ONCE = 1 << 14
"""The number of blocks whose random numbers are kept at a time."""


class BlockPlacer:
    """The nodes of `index` as arrays, and the choice of nodes for blocks as by `place_new` and `place_file`.

    The loads in the arrays grow with each chosen node. Until `put_back` writes them to `index`, nothing else
    may use `index`. Chosen nodes are given as numbers, which are places in `names`.
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
        """Return whether blocks of `size_bytes` in all may be placed here, on `count` nodes each.

        Otherwise there are too few nodes, or the numbers of bytes are too large for exact calculations.
        """
        total_bytes = int(self._field.total_bytes[0]) + count * size_bytes
        most_bytes = int(self._loads.max(initial=0)) if total_bytes >= EXACT else 0
        return 1 <= count <= len(self.names) and most_bytes + size_bytes < EXACT and total_bytes < 1 << 61

    def numbers_of(self, nodes: Sequence[NodeId]) -> Values:
        """Return the numbers of nodes, `NOBODY` for a node that is not in the index."""
        return np.array([self.place_of.get(node, NOBODY) for node in nodes], np.int64)

    def place_outputs(self, blocks: Iterable[str], writers: Values, lengths: Values, count: int) -> Values:
        """Return the `count` nodes of each block of outputs, as `place_new` chooses them.

        `blocks` are the names that determine the random choice. `writers` has the number of the node that
        writes each block.
        """
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
        """Return the `count` nodes of each block of a new file, as `place_file` chooses them.

        `block` is the file's first block.
        """
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
        """Write the loads of the nodes to the index from which the arrays were made."""
        self._index.load_bytes.update(zip(self.names, self._loads.tolist(), strict=True))
        self._index.total_bytes = int(self._field.total_bytes[0])


def _random_numbers(luck: Coin, count: int) -> Values:
    random = luck.random
    return np.array([random() for _ in range(count)], float)


def _most_draws(count: int) -> int:
    """Return the largest number of random numbers that the nodes of a block can need."""
    return 3 + 2 * count * (DRAWS + 1)


def compile_placing() -> None:
    """Make the machine code of the functions that place blocks, unless the cache has it."""
    placer = BlockPlacer(NodeIndex(), 0)
    placer._place_with_keys([], np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, 1), np.int64))
    first_draws([b"key"], 1)
