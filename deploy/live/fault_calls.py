"""Fault injection by calls to the Ray actors of a live cluster."""

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
PATIENCE_S = 3.0  # After this time the call is repeated, which does no harm.


class RayFaultCalls:
    """An injector of single faults into a live cluster through Ray. Implements the protocol
    `instant_faults.FaultCalls`.
    """

    def __init__(self, cluster: RayCluster) -> None:
        self._cluster = cluster
        self._failures: dict[tuple[NodeId, str], int] = {}  # Failures in a row, by node and kind.

    def on_node(self, node: NodeId, kind: str, arguments: Mapping[str, Any]) -> str:
        """Make the node's TaskTracker apply a fault of the given kind, with `arguments` that depend on the
        kind.

        Return the fault's target, such as an attempt's id. Raises MasterGone if the TaskTracker is down, or
        if the fault failed but may succeed later. For example, a busy host may not pause a container
        immediately. After TRIES failures in a row, RunFailed is raised instead.
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
        """Implement `FaultCalls.pick_replica`: let the NameNode choose a replica to damage.

        The replica must be on a running node in `up` and, unless `nodes` is empty, in `nodes`. `target` is a
        block's id or a file's path, or "" for any block. `luck`, a random number from 0 to 1, selects one of
        the matching replicas. Return the block and the node of the replica, or None if there is none. Raises
        MasterGone if the NameNode does not answer.
        """
        return asyncio.run(self._cluster.masters.name_node.pick_replica(up, target, nodes, luck))

    def kill_tracker(self, node: NodeId) -> None:
        """Kill the node's TaskTracker. The next call of `RayCluster.addresses` starts a new one."""
        self._cluster.wait([self._cluster.trackers[node].kill()], timeout_s=PATIENCE_S)

    def kill_host(self, node: NodeId) -> Sequence[NodeId]:
        """Kill the process that runs the TaskTrackers of the host that `node` is on. Return the nodes on that
        host.

        Ray restarts the process.
        """
        return self._cluster.kill_host(node)

    def kill_master(self, name: str) -> None:
        """Kill the process of the master `name`, which is `jobtracker` or `namenode`. Ray restarts the
        process.
        """
        self._cluster.kill_master(name)

    def hold(self, name: str, for_s: float) -> None:
        """Make the master `name` (`jobtracker` or `namenode`) refuse all calls after its next restart.

        It refuses them until `for_s` emulated seconds from now. The caller must call `hold` before killing
        the master.
        """
        hold_down(self._cluster.control, name, time.time() + self._cluster.real_s(for_s))
