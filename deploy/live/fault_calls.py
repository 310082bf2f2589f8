"""How faults reach the actors of a live cluster: through Ray."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any

from schedbed.cluster.masters import MasterGone
from schedbed.cluster.run_config import hold_down
from schedbed.deploy.failures import RunFailed
from schedbed.deploy.live.ray_cluster import RayCluster
from schedbed.tasks.specs import NodeId

TRIES = 20
PATIENCE_S = 3.0  # for a TaskTracker that is to apply a fault; then it is told again, which does no harm


class RayHands:
    """`deploy.live.instant_faults.Hands` of a Ray cluster."""

    def __init__(self, cluster: RayCluster) -> None:
        self._cluster = cluster
        self._failed: dict[tuple[NodeId, str], int] = {}  # how often in a row

    def on_node(self, node: NodeId, kind: str, arguments: Mapping[str, Any]) -> str:
        """Has the node's TaskTracker apply a fault; what it has hit. Raises MasterGone, also when it failed but may yet
        work (a busy host may not pause a container at once), and RunFailed when it does not."""
        call = self._cluster.trackers[node].fault(kind, dict(arguments))
        try:
            hit = self._cluster.wait([call], timeout_s=PATIENCE_S)[0]
        except MasterGone:
            raise
        except Exception as error:
            self._failed[node, kind] = self._failed.get((node, kind), 0) + 1
            why = f"faults: {kind} on {node}: {error}"
            raise (MasterGone(why) if self._failed[node, kind] < TRIES else RunFailed(why)) from error
        self._failed.pop((node, kind), None)
        return hit

    def pick_replica(
        self, up: Sequence[NodeId], target: str, nodes: Sequence[NodeId], luck: float
    ) -> tuple[str, NodeId] | None:
        """Ask the NameNode for a replica to harm. Raises MasterGone."""
        return asyncio.run(self._cluster.masters.name_node.pick_replica(up, target, nodes, luck))

    def kill_actor(self, name: str) -> None:
        """Kills the actor's process; Ray starts another."""
        self._cluster.kill_actor(name)

    def hold(self, name: str, for_s: float) -> None:
        """Keeps a master that is killed now from serving for so long."""
        hold_down(self._cluster.control, name, time.time() + for_s)
