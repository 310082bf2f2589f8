"""The NameNode as an asynchronous service, which adds the current time to each call.

After a restart, calls that need the nodes of replicas wait for block reports (HDFS calls this safe mode).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from schedbed.cluster.blocks.namenode import NameNode
from schedbed.cluster.clock import RunClock
from schedbed.cluster.masters import Json, NameNodeDoor, Rows
from schedbed.cluster.spec import DynamicReplicas
from schedbed.tasks.specs import NodeId

SETTLE_STEP_S = 0.05
SETTLE_LIMIT_S = 20.0
"""The longest time that a call to a restarted NameNode waits for the nodes' block reports."""


class ServedNameNode(NameNodeDoor):
    """Calls the method of the same name with the run's time, which is 0 before the clock has begun."""

    def __init__(self, names: NameNode, clock: RunClock) -> None:
        self._names = names
        self._clock = clock

    async def stop(self) -> None:
        self._names.shutdown()

    def _now_s(self) -> float:
        return self._clock.now_s() if self._clock.epoch_s else 0.0

    async def _settle(self) -> None:
        """Wait for the block reports after a restart, at most `SETTLE_LIMIT_S` seconds."""
        waited_s = 0.0
        while waited_s < SETTLE_LIMIT_S and self._names.settling(self._now_s()):
            await asyncio.sleep(SETTLE_STEP_S)
            waited_s += SETTLE_STEP_S

    # -- nodes -----------------------------------------------------------------------------------------------

    async def register(self, node: NodeId, rack: str, url: str, blocks: Sequence[Json]) -> None:
        self._names.register(self._now_s(), node, rack, url, blocks)

    async def node_lost(self, node: NodeId) -> None:
        self._names.node_lost(self._now_s(), node)

    async def heartbeat(self, node: NodeId) -> Rows:
        return self._names.heartbeat(self._now_s(), node)

    async def block_event(self, node: NodeId, event: str, block: str, length: int) -> None:
        self._names.block_event(self._now_s(), node, event, block, length)

    async def report_bad(self, block: str, node: NodeId) -> None:
        self._names.report_bad(self._now_s(), block, node)

    async def keeps(self, node: NodeId, block: str, budget: float) -> Json:
        return self._names.keeps(node, block, budget)

    async def note_reads(
        self, reading: dict[str, int], serving: dict[NodeId, tuple[float, int]], scheme: DynamicReplicas
    ) -> None:
        self._names.note_reads(self._now_s(), reading, serving, scheme)

    # -- writing ---------------------------------------------------------------------------------------------

    async def create(self, path: str, replication: int, block_bytes: int = 0) -> None:
        self._names.create(self._now_s(), path, replication, block_bytes)

    async def reopen(self, path: str) -> None:
        self._names.reopen(self._now_s(), path)

    async def allocate(
        self,
        path: str,
        writer: NodeId | None,
        replication: int,
        length_hint: int = 0,
        exclude: Sequence[NodeId] = (),
    ) -> Json:
        await self._settle()
        return self._names.allocate(self._now_s(), path, writer, replication, length_hint, exclude)

    async def complete(self, path: str, blocks: Sequence[Json]) -> None:
        self._names.complete(self._now_s(), path, blocks)

    async def plan_input(
        self,
        path: str,
        lengths: Sequence[int],
        replication: int,
        placement: str = "hdfs",
        preferred: Sequence[Sequence[NodeId]] | None = None,
        skew: float | None = None,
    ) -> Rows:
        await self._settle()
        return self._names.plan_input(self._now_s(), path, lengths, replication, placement, preferred, skew)

    async def input_uploaded(self, path: str, blocks: Sequence[Json] | None = None) -> None:
        self._names.input_uploaded(self._now_s(), path, blocks)

    # -- the tree --------------------------------------------------------------------------------------------

    async def rename(self, src: str, dst: str) -> None:
        self._names.rename(self._now_s(), src, dst)

    async def delete(self, path: str, recursive: bool = False, for_good: bool = False) -> bool:
        return self._names.delete(self._now_s(), path, recursive, for_good)

    async def mkdirs(self, path: str) -> None:
        self._names.mkdirs(self._now_s(), path)

    async def concat(self, path: str, sources: Sequence[str]) -> None:
        self._names.concat(self._now_s(), path, sources)

    async def set_attributes(self, path: str, attributes: Json) -> None:
        self._names.set_attributes(self._now_s(), path, attributes)

    async def set_replication(self, path: str, replication: int) -> None:
        self._names.set_replication(self._now_s(), path, replication)

    # -- questions -------------------------------------------------------------------------------------------

    async def locate(self, path: str, offset: int = 0, length: int | None = None) -> Rows:
        await self._settle()
        return self._names.locate(path, offset, length)

    async def stat(self, path: str) -> Json:
        return self._names.stat(path)

    async def list(self, path: str) -> Rows:
        return self._names.list(path)

    async def content_summary(self, path: str) -> Json:
        return self._names.content_summary(path)

    async def nodes(self) -> dict[NodeId, Json]:
        return self._names.nodes()

    async def pick_replica(
        self, up: Sequence[NodeId], target: str, nodes: Sequence[NodeId], luck: float
    ) -> tuple[str, NodeId] | None:
        return self._names.pick_replica(up, target, nodes, luck)

    async def take_replica_changes(self) -> Sequence[tuple[str, Sequence[NodeId]]]:
        return self._names.take_replica_changes()

    # -- the run ---------------------------------------------------------------------------------------------

    async def begin_clock(self, epoch_s: float) -> None:
        self._clock.begin(epoch_s)

    async def time_of_day(self) -> float:
        return self._clock.time_of_day_s(self._clock.now_s())

    async def poll(self, cursor: int = 0) -> Json:
        return self._names.poll(cursor)

    async def close(self) -> None:
        self._names.close(self._now_s())
