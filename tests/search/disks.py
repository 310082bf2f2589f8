"""A model of the nodes' disks, changed only by writes, copies and deletions; DataNodes report its content."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from schedbed.cluster.blocks.namenode import NameNode
from schedbed.scheduler.simulate.replication_upkeep import NAMENODE_HEARTBEAT_S
from schedbed.scheduler.simulate.simulation import Simulation
from schedbed.tasks.chance import chance
from tests.search.violation import hold


class Disks:
    """Follows the block contents of all disks in a simulation.

    A block that the NameNode has given up stays on a disk until the node is ordered to delete it.
    """

    def __init__(self, sim: Simulation) -> None:
        self._sim: Any = sim
        self._storage: Any = sim.storage
        self._held: dict[str, dict[str, int]] = {}
        self._kept_s = -NAMENODE_HEARTBEAT_S * 2  # Time of the last kept copy.
        for node in sim.nodes:
            blocks = sim.storage.blocks_on(node.node)
            self._held[node.node] = {each["block"]: each["length"] for each in blocks}
        self._storage.blocks_on = self.report
        self._storage.written = self._told_of(self._storage.written)
        self._sim.upkeep._obey = self._obeyed(self._sim.upkeep._obey)
        self._sim.report_blocks = self._reported(self._sim.report_blocks)

    def report(self, node: str) -> list[dict[str, Any]]:
        """Return the blocks on a node's disk in the form of a block report."""
        return [{"block": block, "length": length} for block, length in self._held[node].items()]

    @contextmanager
    def followed(self) -> Iterator[None]:
        """Update the disks by the nodes' reports of single blocks, while the context lasts."""
        inner, held = NameNode.block_event, self._held

        def block_event(
            names: NameNode, now_s: float, node: str, event: str, block: str, length: int
        ) -> None:
            if event == "kept":
                self._kept_s = now_s
            if event in ("added", "kept"):
                held[node][block] = length
            elif event == "removed":
                held[node].pop(block, None)
            inner(names, now_s, node, event, block, length)

        with patch.object(NameNode, "block_event", block_event):
            yield

    def _told_of(self, inner: Callable[..., None]) -> Callable[..., None]:
        """Wrap the end of a write: DataNodes report each new replica, before or after the writer's report."""

        def written(now_s: float, node: str, path: str, lengths: Sequence[int]) -> None:
            blocks = list(self._storage._writing.get(path, ()))
            early = chance(self._sim.setup.seed, "early", path).random() < 0.3
            if not early:
                inner(now_s, node, path, lengths)
            for (block, holders), length in zip(blocks, lengths, strict=False):
                for holder in holders:
                    if self._sim.is_alive(holder):
                        self._storage.names.block_event(now_s, holder, "added", block, length)
            if early:
                inner(now_s, node, path, lengths)
            self._sim.upkeep.stir()

        return written

    def _obeyed(self, inner: Callable[..., None]) -> Callable[..., None]:
        def obey(now_s: float, node: str, command: dict[str, Any]) -> None:
            if command["type"] == "delete_block":
                block = command["block"]
                hold(
                    block in self._held[node], "a node is told to delete what it holds", f"{block} on {node}"
                )
            elif command["type"] == "report_blocks":
                self._sim.node_by_name[node].blocks = self.report(node)
            inner(now_s, node, command)

        return obey

    def _reported(self, inner: Callable[..., None]) -> Callable[..., None]:
        def report_blocks(now_s: float, node: Any) -> None:
            if node.blocks is not None:
                node.blocks = self.report(node.node)
            inner(now_s, node)

        return report_blocks

    def check(self, replication: int) -> None:
        """Check that each disk holds exactly the blocks that the NameNode knows, and no block of no file.

        No block may have more replicas than wanted.
        """
        names = self._storage.names
        owned = {block for _, blocks in names.files() for block in blocks}
        for name in names.nodes():
            # Orders that wait for a heartbeat count as carried out.
            ordered = names._blocks._replication._unwanted.get(name, {})
            known, held = (
                {each["block"] for each in names.blocks_on(name)},
                set(self._held[name]) - set(ordered),
            )
            hold(known == held, "disks hold what the NameNode knows", f"{name}: {sorted(known ^ held)}")
            hold(held <= owned, "nothing is left on disks", f"{name}: {sorted(held - owned)}")
        epoch_s = names._blocks._epoch.begin_s
        if epoch_s > 0.0 and self._sim.now_s < epoch_s + 2 * NAMENODE_HEARTBEAT_S:
            return  # The end of an epoch has lowered targets, and nodes may still wait for the orders to delete.
        for block in owned:
            extra = names._blocks._replication.kept.count(block)
            if self._sim.now_s < self._kept_s + 2 * NAMENODE_HEARTBEAT_S:
                # Evicted copies may stay for two heartbeats, until every node is told to delete them.
                extra += len(names._blocks._replication.kept.let_go(block))
            # The targets of schemes are checked by `epoch_rule` in tests of the NameNode alone.
            target = max(replication, names._blocks.map.blocks[block].target)
            many = len(names.holders(block)) > target + extra
            hold(not many, "replicas above the target are trimmed", f"{block}: {names.holders(block)}")
