"""Choice of nodes for replicas: HDFS's rack rule, evenly, few nodes, preferred ones. Depends on seed and block only."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from schedbed.cluster.blocks.live_nodes import CandidateNode, NodeIndex
from schedbed.tasks.chance import chance
from schedbed.tasks.specs import NodeId

if TYPE_CHECKING:
    from random import Random

PLACEMENTS = ("hdfs", "even", "skewed")


DRAWS = 8
"""The number of random draws before all suitable nodes are listed instead."""


def place_hdfs(
    candidates: NodeIndex | Iterable[CandidateNode],
    count: int,
    *,
    seed: int,
    block: str,
    writer: NodeId | None = None,
    existing: Sequence[CandidateNode] = (),
    exclude: Sequence[NodeId] = (),
) -> list[NodeId]:
    """Choose up to `count` nodes for further replicas by HDFS's rack rule, none of `existing` or `exclude`.

    The first replica is on the writer, or a random node; the second on another rack, the third on the
    second's rack, others anywhere. Nodes above twice the average load come last. Too few candidates give
    fewer nodes.
    """
    field = candidates if isinstance(candidates, NodeIndex) else NodeIndex(candidates)
    luck = chance(seed, "place", block, len(existing))
    if not existing and not exclude:
        return place_new(field, count, luck, writer)
    taken = dict.fromkeys([*(held.node for held in existing), *exclude])
    return _complete(_Choice(field, luck, taken), count, [held.rack for held in existing], writer)


def place_new(field: NodeIndex, count: int, luck: Random, writer: NodeId | None) -> list[NodeId]:
    """Choose nodes for the replicas of a new block, as `place_hdfs` does with the random generator `luck`."""
    if count < 1 or len(field.by_rack) < 2:
        return _complete(_Choice(field, luck, {}), count, [], writer)
    chosen = _first_draws(field, count, 2 * field.total_bytes / len(field.names), luck, writer)
    if len(chosen) < count:
        unsuitable = len(chosen) < 3  # The last draw was of a node that is unsuitable.
        return _complete_drawn(field, count, chosen, luck, draws=DRAWS - unsuitable, writer=writer)
    return chosen


def place_file(
    field: NodeIndex, count: int, blocks: Sequence[str], lengths: Sequence[int], *, seed: int
) -> list[list[NodeId]]:
    """Choose each block's nodes as `place_hdfs` without a writer, and charge `field` with the `lengths`.

    All blocks use one random generator, seeded by `seed` and the first block.
    """
    if not blocks:
        return []
    luck = chance(seed, "place", blocks[0], "file")
    placed: list[list[NodeId]] = []
    nodes = max(1, len(field.names))
    for length in lengths:
        chosen = _first_draws(field, count, 2 * field.total_bytes / nodes, luck, None)
        if len(chosen) < count:
            chosen = _complete_drawn(field, count, chosen, luck)
        field.charge_all(chosen, length)
        placed.append(chosen)
    return placed


def _first_draws(
    field: NodeIndex, count: int, most_bytes: float, luck: Random, writer: NodeId | None
) -> list[NodeId]:
    """Draw nodes of a new block's first three replicas, up to the first unsuitable one, by the rack rule.

    Unsuitable is a node on the wrong rack, drawn before, or above `most_bytes`. A live `writer` is first
    without a draw.
    """
    random, names, racks, load_bytes = luck.random, field.names, field.racks, field.load_bytes
    if writer in racks:
        first = writer
    else:
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


def _complete_drawn(
    field: NodeIndex,
    count: int,
    chosen: list[NodeId],
    luck: Random,
    *,
    draws: int = DRAWS,
    writer: NodeId | None = None,
) -> list[NodeId]:
    """Complete `chosen`, which were drawn, to `count` nodes. `draws` precede a listing of suitable nodes."""
    choice = _Choice(field, luck, {}, draws)
    racks = [choice.take(node) for node in chosen]
    return chosen + _complete(choice, count - len(chosen), racks, writer)


def _complete(choice: _Choice, count: int, racks: list[str], writer: NodeId | None) -> list[NodeId]:
    """Choose up to `count` further nodes of a block by HDFS's rack rule. `racks` are those of its replicas."""
    chosen: list[NodeId] = []
    while len(chosen) < count:
        node = choice.next_hdfs(racks, writer)
        if node is None:
            break
        chosen.append(node)
        racks.append(choice.take(node))
    return chosen


class _Choice:
    """Chooses nodes not in `taken`, those above twice the average load last.

    The first choice draws `draws` nodes before it lists all suitable ones, later ones `DRAWS`.
    """

    def __init__(self, field: NodeIndex, luck: Random, taken: dict[NodeId, None], draws: int = DRAWS) -> None:
        self._field = field
        self._luck = luck
        self._taken = taken
        self._draws = draws
        self._most_bytes = 2 * field.mean_bytes(taken)

    def take(self, node: NodeId) -> str:
        """Take a node and return its rack."""
        self._taken[node] = None
        return self._field.racks[node]

    def next_hdfs(self, racks: Sequence[str], writer: NodeId | None) -> NodeId | None:
        """Choose the next replica's node by HDFS's rack rule, or else any. None if all are taken."""
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
        """Return a random node of `pool`, not taken and not on `but_rack`, or None."""
        field, taken, most_bytes = self._field, self._taken, self._most_bytes
        count, draws = len(pool), self._draws
        self._draws = DRAWS
        for _ in range(draws if count else 0):
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
    """Choose `count` nodes so that the file's blocks are spread evenly. `file_blocks` counts those of each
    node.

    Ties go to the least load, to racks without a replica, then by chance.
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
    """Return the first `share` of nodes, rounded up, at least one: those of placement skewed (xu2015)."""
    exact = Fraction(str(share)) * len(order)  # 0.2 of 5 nodes is one node, whatever floats think
    return list(order[: max(1, math.ceil(exact))])


def place_preferred(
    candidates: NodeIndex | Iterable[CandidateNode],
    count: int,
    *,
    seed: int,
    block: str,
    preferred: Sequence[NodeId],
) -> list[NodeId]:
    """Choose up to `count` nodes for a block, first live nodes in `preferred`, then by HDFS's rack rule."""
    field = candidates if isinstance(candidates, NodeIndex) else NodeIndex(candidates)
    names = [node for node in dict.fromkeys(preferred) if node in field.racks][:count]
    named = [CandidateNode(node, field.racks[node], field.load_bytes[node]) for node in names]
    more = place_hdfs(field, count - len(named), seed=seed, block=block, existing=named)
    return [c.node for c in named] + more


def surplus(holders: Sequence[CandidateNode], target: int) -> list[NodeId]:
    """Choose replicas to delete, each from the fullest rack and there the highest load. Return the nodes."""
    staying = list(holders)
    dropped: list[NodeId] = []
    while len(staying) > target:
        racks = [c.rack for c in staying]
        victim = max(staying, key=lambda c: (racks.count(c.rack), c.load_bytes, c.node))
        staying.remove(victim)
        dropped.append(victim.node)
    return dropped
