"""Reference for the block copies that a NameNode plans at each heartbeat.

It computes the sources, targets and limits of copies, and the blocks that must wait, from the model of the
replicas.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from schedbed.cluster.blocks.live_nodes import CandidateNode
from schedbed.cluster.blocks.placement import place_hdfs, surplus
from tests.search.violation import hold

CHECK = "copies are planned as said"
REFUSED_LIMIT = 3
"""Planning ends after this number of blocks without room, until the next heartbeat; tests reach the limit."""
Planned = tuple[str, str, str, float]
"""A planned copy: block, target, source, and the time at which it is given up."""


class CopiesRule:
    """Wraps the copy planning of a NameNode and compares each plan with the expected one.

    `known` is the model of the replicas (`KnownReplicas`). A node sends and receives at most `limit` copies
    at once, and a copy is given up after `timeout_s`.
    """

    def __init__(self, known: Any, *, seed: int, limit: int, timeout_s: float) -> None:
        self._known, self._seed, self._limit, self._timeout_s = known, seed, limit, timeout_s

    def watch(self, names: Any) -> None:
        """Start checking a new NameNode, by replacing three of its methods."""
        self._part = names._blocks._replication
        self._plan = self._part._plan
        self._part._plan = self._planned
        self._expire = self._part._expire
        self._part._expire = self._expired
        self._may_order = self._part.may_order
        self._part.may_order = self._may
        self._known.tries.clear()

    def _may(self, now_s: float, node: str) -> bool:
        may = self._may_order(now_s, node)
        if not may:
            before = self._pending()
            late = [each for each in before if each[3] <= now_s]
            waiting = [
                (block, to)
                for block, copies in self._part._pending.items()
                for to, copy in copies.items()
                if copy.source == node and not copy.sent
            ]
            left = [*self._wanted(now_s, before), *late, *waiting]
            hold(not left, CHECK, f"{now_s}: nothing to do at a heartbeat of {node}, but {left}")
        return may

    def _pending(self) -> list[Planned]:
        return [
            (block, to, copy.source, copy.until_s)
            for block, copies in self._part._pending.items()
            for to, copy in copies.items()
        ]

    def _expired(self, now_s: float) -> None:
        staying = [
            (block, to)
            for block, copies in self._part._pending.items()
            for to, copy in copies.items()
            if copy.until_s > now_s
            and (copy.sent or len(self._known.good(block)) < self._known.target(block))
        ]
        self._expire(now_s)
        found = [each[:2] for each in self._pending()]
        hold(found == staying, CHECK, f"{now_s}: {staying} go on, not {found}")

    def _planned(self, now_s: float) -> None:
        before = self._pending()
        wanted = self._wanted(now_s, before)
        self._plan(now_s)
        new = [each for each in self._pending() if each not in before]
        hold(sorted(new) == sorted(wanted), CHECK, f"{now_s}: {new} instead of {wanted}")

    def _wanted(self, now_s: float, before: list[Planned]) -> list[Planned]:
        """Return the copies to plan now.

        Blocks with the fewest good replicas come first, then those that have waited longest.
        """
        under = self._part._under
        waiting = [block for good in sorted(under) for block in under[good]]
        sending = Counter(source for _, _, source, _ in before)
        receiving = Counter(to for _, to, _, _ in before)
        coming: dict[str, list[str]] = {}
        for block, to, _, _ in before:
            coming.setdefault(block, []).append(to)
        planned: list[Planned] = []
        refused = 0
        for block in waiting:
            if refused == REFUSED_LIMIT:
                break
            to_come = coming.setdefault(block, [])
            while len(self._known.good(block)) + len(to_come) < self._known.target(block):
                one = self._one(now_s, block, to_come, sending, receiving)
                if one is None:
                    refused += self._waits(now_s, block, to_come)
                    break
                planned.append(one)
        return planned

    def _places(self, now_s: float, block: str, to_come: list[str]) -> list[str]:
        known = self._known
        return [
            node
            for node in self._part.map.nodes
            if not known.holds(node, block)
            and node not in to_come
            and known.leaving_until_s(block, node) <= now_s
        ]

    def _waits(self, now_s: float, block: str, to_come: list[str]) -> bool:
        """Return whether some node can take the block now, or after a deletion that has been ordered.

        Such a block stays in the queue; other blocks wait for a new node.
        """
        leaves = any(each == block for each, _ in self._known.leaving(now_s))
        # `known` learns of deletions that this heartbeat orders only after the heartbeat.
        leaves = leaves or any(
            node not in self._part.map.blocks[block].replicas for node in self._known.held[block]
        )
        return leaves or bool(self._places(now_s, block, to_come))

    def _one(
        self, now_s: float, block: str, to_come: list[str], sending: Counter[str], receiving: Counter[str]
    ) -> Planned | None:
        known, load = self._known, self._part.map.load_bytes
        good = known.good(block)
        free = [node for node in self._places(now_s, block, to_come) if receiving[node] < self._limit]
        sources = [node for node in good if sending[node] < self._limit]
        if not free or not sources:
            return None
        source = min(sources, key=lambda node: (sending[node], load(node), node))
        known.tries[block] += 1
        to = known.epochs.place(block, len(to_come), free, load) or self._by_hdfs(block, free, to_come)
        sending[source] += 1
        receiving[to] += 1
        to_come.append(to)
        return block, to, source, now_s + self._timeout_s

    def _by_hdfs(self, block: str, free: list[str], to_come: list[str]) -> str:
        (to,) = place_hdfs(
            self._candidates(free),
            1,
            seed=self._seed,
            block=f"{block}/{self._known.tries[block]}",
            existing=self._candidates([*self._known.good(block), *to_come]),
        )
        return to

    def _candidates(self, nodes: list[str]) -> list[CandidateNode]:
        blocks = self._part.map
        return [CandidateNode(node, blocks.rack(node), blocks.load_bytes(node)) for node in nodes]

    def surplus(self, block: str) -> list[str]:
        """Return the nodes that may delete their replica of the block now.

        Evicted copies are deleted first, kept copies never.
        """
        good, kept = self._known.good(block), self._known.kept
        many = len(good) - self._known.target(block) - kept.count(block)
        if many <= 0:
            return []
        evicted = [node for node in kept.let_go(block) if node in good][:many]
        staying = [node for node in good if not kept.is_copy(block, node)]
        return evicted or surplus(self._candidates(staying), self._known.target(block))

    def check(self, now_s: float) -> None:
        """Check the copies in progress, the deletions in progress, and the blocks that wait for a copy."""
        part, known = self._part, self._known
        for block, to, source, _ in self._pending():
            seen = f"{now_s}: {block} from {source} to {to}, good on {known.good(block)}"
            hold(source in known.good(block), CHECK, seen)
            hold(known.is_live(to) and not known.holds(to, block), CHECK, seen)
        leaving = {
            (block, node): until_s
            for block, each in part._leaving.items()
            for node, until_s in each.items()
            if until_s > now_s
        }
        mine = known.leaving(now_s)
        hold(leaving == mine, CHECK, f"{now_s}: leaving {leaving} instead of {mine}")
        hold(part._tries == +known.tries, CHECK, f"{part._tries} tries instead of {known.tries}")
        unwanted = {node: set(blocks) for node, blocks in part._unwanted.items() if blocks}
        hold(unwanted == known.unwanted(), CHECK, f"{unwanted} instead of {known.unwanted()}")
        coming = Counter(block for block, _, _, _ in self._pending())
        wants = {
            block for block in known.held if 0 < len(known.good(block)) < known.target(block) - coming[block]
        }
        found = {*part._level, *part._parked}
        hold(found == wants, CHECK, f"{now_s}: {found ^ wants} want more, or do not")
        levels = {block: len(known.good(block)) for block in part._level}
        filed = {block: good for good, blocks in part._under.items() for block in blocks}
        hold(part._level == levels == filed, CHECK, f"{part._level}, {filed} instead of {levels}")
