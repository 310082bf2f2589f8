"""Placement of replicas: HDFS's rack rule, the layouts `even` and `skewed`, and nodes named by a trace.

Random choices depend only on the seed and the block.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from schedbed.cluster.blocks.live_nodes import CandidateNode, Field
from schedbed.tasks.chance import chance
from schedbed.tasks.specs import NodeId

if TYPE_CHECKING:
    from random import Random

PLACEMENTS = ("hdfs", "even", "skewed")


DRAWS = 8
"""The number of random draws before all suitable nodes are listed instead."""


def place_hdfs(
    candidates: Field | Iterable[CandidateNode],
    count: int,
    *,
    seed: int,
    block: str,
    writer: NodeId | None = None,
    existing: Sequence[CandidateNode] = (),
    exclude: Sequence[NodeId] = (),
) -> list[NodeId]:
    """Choose up to `count` nodes for further replicas of a block by HDFS's rack rule.

    `existing` are nodes that already hold the block; they and the nodes in `exclude` are not chosen. The
    first replica is on the writer's node, or on a random node if the writer is no candidate; the second on
    another rack; the third on the rack of the second; further replicas on random nodes. Nodes with more than
    twice the average load are chosen only if no other nodes are left. With too few candidates, fewer nodes
    are returned.
    """
    field = candidates if isinstance(candidates, Field) else Field(candidates)
    taken = dict.fromkeys([*(held.node for held in existing), *exclude])
    choice = _Choice(field, chance(seed, "place", block, len(existing)), taken)
    racks = [held.rack for held in existing]
    chosen: list[NodeId] = []
    while len(chosen) < count:
        node = choice.next_hdfs(racks, writer)
        if node is None:
            break
        taken[node] = None
        chosen.append(node)
        racks.append(field.racks[node])
    return chosen


def place_file(
    field: Field, count: int, blocks: Sequence[str], lengths: Sequence[int], *, seed: int
) -> list[list[NodeId]]:
    """Choose nodes for each block of a new file by HDFS's rack rule. Add the blocks to the loads in `field`.

    Like `place_hdfs` without a writer, but one random generator, seeded by the first block, serves the whole
    file.
    """
    if not blocks:
        return []
    luck = chance(seed, "place", blocks[0], "file")
    placed: list[list[NodeId]] = []
    load_bytes, nodes = field.load_bytes, max(1, len(field.names))
    for length in lengths:
        chosen = _first_draws(field, count, 2 * field.total_bytes / nodes, luck)
        if len(chosen) < count:
            chosen = _complete(field, count, chosen, luck)
        for node in chosen:
            load_bytes[node] += length
        field.total_bytes += length * len(chosen)
        placed.append(chosen)
    return placed


def _first_draws(field: Field, count: int, most_bytes: float, luck: Random) -> list[NodeId]:
    """Draw up to three nodes by the rack rule. Stop before the first unsuitable node.

    A node is unsuitable if it is on the wrong rack, drawn already, or loaded with more than `most_bytes`.
    """
    random, names, racks, load_bytes = luck.random, field.names, field.racks, field.load_bytes
    first = names[int(random() * len(names))] if names else ""
    if not first or load_bytes[first] > most_bytes:
        return []
    if count == 1:
        return [first]
    second = names[int(random() * len(names))]
    rack = racks[second]
    if rack == racks[first] or load_bytes[second] > most_bytes:
        return [first]
    if count == 2:
        return [first, second]
    pool = field.by_rack[rack]
    third = pool[int(random() * len(pool))]
    if third == second or load_bytes[third] > most_bytes:
        return [first, second]
    return [first, second, third]


def _complete(field: Field, count: int, chosen: list[NodeId], luck: Random) -> list[NodeId]:
    """Add nodes to `chosen` by the rack rule until there are `count`, if possible. Return `chosen`."""
    taken: dict[NodeId, None] = {}
    choice, racks = _Choice(field, luck, taken), [field.racks[node] for node in chosen]
    taken.update(dict.fromkeys(chosen))
    while len(chosen) < count:
        node = choice.next_hdfs(racks, None)
        if node is None:
            break
        taken[node] = None
        chosen.append(node)
        racks.append(field.racks[node])
    return chosen


class _Choice:
    """A random choice of nodes not in `taken`. Nodes with at most twice the average load come first."""

    def __init__(self, field: Field, luck: Random, taken: Mapping[NodeId, None]) -> None:
        self._field = field
        self._luck = luck
        self._taken = taken
        self._most_bytes = 2 * field.mean_bytes(taken)

    def next_hdfs(self, racks: Sequence[str], writer: NodeId | None) -> NodeId | None:
        """Return a node by the rack rule, or any free node if no node fits the rule; None if no node is free.

        `racks` are the racks of the replicas so far.
        """
        field, found = self._field, None
        if not racks:
            if writer in field.racks and writer not in self._taken:
                return writer
        elif len(set(racks)) == 1:
            others = len(field.by_rack) - (racks[0] in field.by_rack)
            found = self._any(field.names, racks[0]) if others else None
        elif len(racks) == 2:
            found = self._any(field.by_rack.get(racks[1], ()), None)
        return found or self._any(field.names, None)

    def _any(self, pool: Sequence[NodeId], but_rack: str | None) -> NodeId | None:
        """Return a random free node of `pool` outside the rack `but_rack`; None if there is none."""
        field, taken, most_bytes = self._field, self._taken, self._most_bytes
        count = len(pool)
        for _ in range(DRAWS if count else 0):
            node = pool[int(self._luck.random() * count)]
            if node in taken or field.load_bytes[node] > most_bytes:
                continue
            if but_rack is None or field.racks[node] != but_rack:
                return node
        left = [node for node in pool if node not in taken and field.racks[node] != but_rack]
        light = [node for node in left if field.load_bytes[node] <= most_bytes] or left
        return light[int(self._luck.random() * len(light))] if light else None


def place_even(
    candidates: Sequence[CandidateNode],
    count: int,
    *,
    seed: int,
    block: str,
    file_blocks: Mapping[NodeId, int],
) -> list[NodeId]:
    """Choose the `count` nodes with the fewest blocks of the file (`file_blocks`), then with the least load.

    The numbers of the file's blocks on two nodes thus differ by at most one, and the least loaded nodes get
    the remaining blocks. Among equal nodes, racks without a replica of the block are preferred; further ties
    are broken at random.
    """
    rng = chance(seed, "place", block, "even")
    free = sorted(candidates, key=lambda c: c.node)
    rng.shuffle(free)
    chosen: list[CandidateNode] = []
    while free and len(chosen) < count:
        racks = [c.rack for c in chosen]
        pick = min(free, key=lambda c: (file_blocks.get(c.node, 0), c.load_bytes, racks.count(c.rack)))
        free.remove(pick)
        chosen.append(pick)
    return [c.node for c in chosen]


def hot_nodes(order: Sequence[NodeId], share: float) -> list[NodeId]:
    """Return the nodes that hold all inputs under `skewed`: ceil(share x N), at least one (xu2015)."""
    exact = Fraction(str(share)) * len(order)  # 0.2 of 5 nodes is one node, whatever floats think
    return list(order[: max(1, math.ceil(exact))])


def place_preferred(
    candidates: Field | Iterable[CandidateNode],
    count: int,
    *,
    seed: int,
    block: str,
    preferred: Sequence[NodeId],
) -> list[NodeId]:
    """Choose up to `count` nodes: live nodes in `preferred` (from a trace) in order, then by HDFS's rule."""
    field = candidates if isinstance(candidates, Field) else Field(candidates)
    names = [node for node in dict.fromkeys(preferred) if node in field.racks][:count]
    named = [CandidateNode(node, field.racks[node], field.load_bytes[node]) for node in names]
    more = place_hdfs(field, count - len(named), seed=seed, block=block, existing=named)
    return [c.node for c in named] + more


def surplus(holders: Sequence[CandidateNode], target: int) -> list[NodeId]:
    """Choose replicas to delete so that `target` remain. Return their nodes.

    Each replica is on the rack with the most replicas, and there on the node with the highest load.
    """
    staying = list(holders)
    dropped: list[NodeId] = []
    while len(staying) > target:
        racks = [c.rack for c in staying]
        victim = max(staying, key=lambda c: (racks.count(c.rack), c.load_bytes, c.node))
        staying.remove(victim)
        dropped.append(victim.node)
    return dropped
