"""The choice of nodes for many input files of one block each, with compiled code."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from schedbed.cluster.blocks.placement import DRAWS
from schedbed.scheduler.simulate.compiled.arrays import Values
from schedbed.scheduler.simulate.compiled.placing.block_nodes import NOBODY, place_blocks
from schedbed.scheduler.simulate.compiled.placing.block_placer import BLOCKS_AT_ONCE, BlockPlacer
from schedbed.scheduler.simulate.compiled.placing.twisters import first_draws
from schedbed.tasks.chance import keys_of


class InputPlacer(BlockPlacer):
    """A `BlockPlacer` that also chooses nodes for many files of one block at a time."""

    def place_inputs(self, blocks: Sequence[str], lengths: Values, count: int) -> Values:
        """Return the `count` nodes of each of the blocks, as `place_input` chooses them for files of one
        block.
        """
        chosen = np.empty((len(lengths), count), np.int64)
        for low in range(0, len(lengths), BLOCKS_AT_ONCE):
            part = slice(low, low + BLOCKS_AT_ONCE)
            self._place_part(blocks[part], lengths[part], chosen[part])
        return chosen

    def _place_part(self, blocks: Sequence[str], lengths: Values, chosen: Values) -> None:
        """Choose nodes for files of one block, and store them in `chosen`.

        A block is placed like a new output block without a writer, with `DRAWS` random numbers. With so few,
        the rules for outputs and inputs differ only if there is a single rack: an output's block that would
        be placed differently needs more random numbers. Such a block is placed as an input alone.
        """
        count, done, used = chosen.shape[1], 0, np.zeros(1, np.int64)
        draws = np.zeros(0)
        if len(self._field.pool_at) > 2:
            draws = first_draws(keys_of(self._seed, ("place",), blocks, "file"), DRAWS)
        nobody = np.full(len(lengths), NOBODY, np.int64)
        while done < len(lengths):
            if len(draws):
                rest = draws[done * DRAWS :], DRAWS, nobody[done:], lengths[done:], chosen[done:], used
                done += place_blocks(self._field, *rest)
            if done < len(lengths):
                one = slice(done, done + 1)
                chosen[one] = self.place_input(blocks[done], lengths[one], count)
                done += 1
