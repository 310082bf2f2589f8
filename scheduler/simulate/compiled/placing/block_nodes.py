"""Compiled choice of the nodes for new blocks by HDFS's rack rule. Mirrors `cluster.blocks.placement`.

A node is a number: its place in the sorted names of all live nodes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from schedbed.cluster.blocks.placement import DRAWS
from schedbed.scheduler.simulate.compiled.arrays import Floats, Ints, Values
from schedbed.scheduler.simulate.compiled.jit import compiled, entry, twin_of

EXACT = 1 << 53
"""The number of bytes up to which every number of bytes is a float."""
NOBODY = -1


class Field(NamedTuple):
    """The live nodes as arrays, like `NodeIndex`.

    `rack` and `load_bytes` are by node. `pool` contains all nodes, then the nodes of each rack r in
    `pool[pool_at[r]:pool_at[r + 1]]`. `total_bytes` has the sum of all loads.
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
    """Return a random node of `pool[low:high]` that is not among the first `made` of `chosen`.

    The node is not on the rack `but_rack`. Return `NOBODY` if there is no such node.
    """
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
    """Complete the nodes of a block, of which `chosen` has the first `made`. There must be enough nodes.

    `draws` is the number of random draws for the next node, before all suitable nodes are counted.
    """
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
    """Draw a node for each of the first three replicas of a new block, until one is unsuitable.

    Store the nodes in `chosen`, and return their number.
    """
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
    """Add `length` bytes to the load of each chosen node."""
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
    """Choose nodes for new blocks one after the other, and add their lengths to the loads of the nodes.

    Store the nodes of block b in the row b of `chosen`. If `draws_each` is 0, all blocks use the random numbers
    `draws`, and `used` has the number of those that were used; else each block has `draws_each` of its own.
    `writers` has the node that writes each block, or is empty for an input. Return the number of blocks for
    which there were enough random numbers.
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
    """Choose nodes for the blocks of new input files, as `place_blocks` does for one file.

    `ends` has the end of each file's blocks in `lengths` and in the rows of `chosen`. A file has `draws_each`
    random numbers for each of its blocks, and as many more. Return the number of files that were placed: all
    files before the first one that needs more random numbers.
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
