"""Tests that a map's message names the blocks that contain its split, and their neighbors."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from schedbed.scheduler.assignment import _input_of
from schedbed.tasks.specs import BlockRange, Split


@given(st.lists(st.integers(0, 4), max_size=8), st.integers(0, 20), st.integers(0, 20))
def test_the_blocks_of_a_split_are_those_it_overlaps_and_their_neighbors(
    lengths: list[int], offset: int, length: int
) -> None:
    begins = [sum(lengths[:number]) for number in range(len(lengths))]
    file = [
        BlockRange(block=f"b{number}", offset=begin, length=size, nodes=())
        for number, (begin, size) in enumerate(zip(begins, lengths, strict=True))
    ]
    overlapping = [
        number
        for number, block in enumerate(file)
        if block.offset < offset + length and block.offset + block.length > offset
    ]
    wanted = file[max(0, overlapping[0] - 1) : overlapping[-1] + 2] if overlapping else []
    split = Split(index=0, file="/in/a", offset=offset, length=length, block=None, hosts=())
    told = _input_of(split, file)
    assert told["blocks"] == tuple(wanted) and told["file_length"] == sum(lengths)
