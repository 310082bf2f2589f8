"""Columns of the blocks table for the replicas that exist at the end of a simulation. There may be millions
of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

import numpy as np

from schedbed.cluster.blocks.memory_journal import Life
from schedbed.scheduler.simulate.row_frames import Column, Text
from schedbed.tasks.specs import NodeId

ROWS_AT_ONCE = 250_000


def columns_of_lives(
    living: Iterable[tuple[NodeId, Mapping[str, Life]]], files: Sequence[tuple[str, Iterable[str]]]
) -> Iterator[dict[str, Column]]:
    """Yield rows of the blocks table for all replicas, as columns, in batches of about `ROWS_AT_ONCE` rows.

    `living`: pairs of a node and a dictionary from block to replica. `files`: pairs of a path and its blocks.
    """
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
