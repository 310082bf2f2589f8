"""The choice of nodes for the blocks of many input files, with compiled code."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from schedbed.scheduler.simulate.compiled.arrays import Values
from schedbed.scheduler.simulate.compiled.placing.block_nodes import place_files
from schedbed.scheduler.simulate.compiled.placing.block_placer import BLOCKS_AT_ONCE, BlockPlacer
from schedbed.scheduler.simulate.compiled.placing.twisters import draws_of
from schedbed.tasks.chance import keys_of

DRAWS_EACH = 4
"""The number of random numbers that are computed at first for each block, and for each file in addition."""


class InputPlacer(BlockPlacer):
    """A `BlockPlacer` that also chooses nodes for the blocks of many files at a time."""

    def place_inputs(self, blocks: Sequence[str], ends: Values, lengths: Values, count: int) -> Values:
        """Return the `count` nodes of each block of new files, as `place_input` chooses them.

        `blocks` is the first block of each file. `lengths` are the sizes of the blocks of all files, and `ends`
        has the end of each file's blocks in it.
        """
        chosen, done, begin = np.empty((len(lengths), count), np.int64), 0, 0
        while done < len(ends):
            most = max(done + 1, int(np.searchsorted(ends, begin + BLOCKS_AT_ONCE, side="right")))
            end = int(ends[most - 1])
            if end - begin > BLOCKS_AT_ONCE:  # A large file has too many random numbers to keep.
                chosen[begin:end] = self.place_input(blocks[done], lengths[begin:end], count)
            else:
                part = slice(begin, end)
                self._place_part(blocks[done:most], ends[done:most] - begin, lengths[part], chosen[part])
            done, begin = most, end
        return chosen

    def _place_part(self, blocks: Sequence[str], ends: Values, lengths: Values, chosen: Values) -> None:
        """Choose nodes for the blocks of files as `place_inputs` does, and store them in `chosen`."""
        keys = keys_of(self._seed, ("place",), blocks, "file")
        draws = draws_of(keys, DRAWS_EACH * (np.diff(ends, prepend=0) + 1))
        done = begin = 0
        while True:
            rest = draws[DRAWS_EACH * (begin + done) :], DRAWS_EACH, ends[done:] - begin, lengths[begin:]
            done += place_files(self._field, *rest, chosen[begin:])
            if done == len(ends):
                return
            low, begin = int(ends[done - 1]) if done else 0, int(ends[done])
            chosen[low:begin] = self.place_input(blocks[done], lengths[low:begin], chosen.shape[1])
            done += 1
