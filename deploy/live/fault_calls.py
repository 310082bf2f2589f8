"""Calls to the actors of a live cluster, through Ray, that inject faults."""

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
PATIENCE_S = 3.0  # A TaskTracker that takes longer to apply a fault gets the call again, which does no harm.


class RayHands:
    """`deploy.live.instant_faults.Hands` of a Ray cluster."""

    def __init__(self, cluster: RayCluster) -> None:
        self._cluster = cluster
        self._failures: dict[tuple[NodeId, str], int] = {}  # In a row, by node and kind.

    def on_node(self, node: NodeId, kind: str, arguments: Mapping[str, Any]) -> str:
        """Make the node's TaskTracker apply a fault. Return what was hit.

        Raises MasterGone, also if the TaskTracker failed but may succeed later (a busy host may not pause a container
        immediately), and RunFailed after TRIES failures in a row.
        """
        call = self._cluster.trackers[node].fault(kind, dict(arguments))
        try:
            hit = self._cluster.wait([call], timeout_s=PATIENCE_S)[0]
        except MasterGone:
            raise
        except Exception as error:
            self._failures[node, kind] = self._failures.get((node, kind), 0) + 1
            why = f"faults: {kind} on {node}: {error}"
            raise (MasterGone(why) if self._failures[node, kind] < TRIES else RunFailed(why)) from error
        self._failures.pop((node, kind), None)
        return hit

    def pick_replica(
        self, up: Sequence[NodeId], target: str, nodes: Sequence[NodeId], luck: float
    ) -> tuple[str, NodeId] | None:
        """Return a replica to harm, chosen by the NameNode. Raises MasterGone if it does not answer."""
        return asyncio.run(self._cluster.masters.name_node.pick_replica(up, target, nodes, luck))

    def kill_tracker(self, node: NodeId) -> None:
        """Kill one node's TaskTracker. `RayCluster.addresses` starts another."""
        self._cluster.wait([self._cluster.trackers[node].kill()], timeout_s=PATIENCE_S)

    def kill_host(self, node: NodeId) -> Sequence[NodeId]:
        """Kill the process of the TaskTrackers of the node's host. Ray starts another. Return the nodes."""
        return self._cluster.kill_host(node)

    def kill_master(self, name: str) -> None:
        """Kill the master's process. Ray starts another."""
        self._cluster.kill_master(name)

    def hold(self, name: str, for_s: float) -> None:
        """Keep a master that is about to be killed from serving for that time."""
        hold_down(self._cluster.control, name, time.time() + self._cluster.real_s(for_s))
