"""Placement of replicas: HDFS's rack rule, the `even` and `skewed` layouts of experiments, and hosts named by a
trace.

All functions are pure; randomness depends only on the seed and the block.
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
"""Number of nodes that are drawn at random for a wish before all that meet it are listed."""


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
    """Return up to `count` more nodes for a block whose replicas `existing` holds, none of these and none of
    `exclude`.

    HDFS's default: the first replica on the writer, or on a random node if the writer is no candidate; the second on
    another rack; the third on the rack of the second; further ones random. Nodes with more than twice the average
    load are chosen only if no others are left. Fewer nodes than asked for give fewer replicas.
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
    """Return the nodes for all blocks of a new file, one after the other, and add the blocks to the loads.

    Like `place_hdfs` without a writer; differs in that one generator, named after the first block, serves the whole
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
    """Return up to three of `count` nodes, fewer if a draw is not light, new, and where the rack rule wants it."""
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
    """Return the chosen nodes completed to `count` by the rack rule."""
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
    """Draws nodes that are not taken. Nodes with at most twice the average load come first."""

    def __init__(self, field: Field, luck: Random, taken: Mapping[NodeId, None]) -> None:
        self._field = field
        self._luck = luck
        self._taken = taken
        self._most_bytes = 2 * field.mean_bytes(taken)

    def next_hdfs(self, racks: Sequence[str], writer: NodeId | None) -> NodeId | None:
        """Return a node by the rack rule, given the racks of the replicas so far; any node if the rule finds none."""
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
        """Return a random node of the pool that is not in that rack; None if there is none."""
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
    """Return the `count` nodes with the fewest blocks of the file (`file_blocks`), then with the least load.

    So the numbers of blocks of a file on two nodes differ by at most one, and the remainder goes to the emptiest
    nodes. Among equals a rack that is not used yet is preferred, then the choice is random.
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
    """Return the nodes that hold all inputs under `skewed`: the first ceil(share x N), at least one (xu2015)."""
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
    """Return the live ones of the nodes named by a trace, in its order, completed by HDFS's rule."""
    field = candidates if isinstance(candidates, Field) else Field(candidates)
    names = [node for node in dict.fromkeys(preferred) if node in field.racks][:count]
    named = [CandidateNode(node, field.racks[node], field.load_bytes[node]) for node in names]
    more = place_hdfs(field, count - len(named), seed=seed, block=block, existing=named)
    return [c.node for c in named] + more


def surplus(holders: Sequence[CandidateNode], target: int) -> list[NodeId]:
    """Return the good replicas to delete so that `target` remain: from the rack with most of them, there the fullest
    node."""
    staying = list(holders)
    dropped: list[NodeId] = []
    while len(staying) > target:
        racks = [c.rack for c in staying]
        victim = max(staying, key=lambda c: (racks.count(c.rack), c.load_bytes, c.node))
        staying.remove(victim)
        dropped.append(victim.node)
    return dropped
