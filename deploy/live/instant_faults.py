"""Functions that inject the instant faults, such as a killed attempt, into a live cluster.

Lasting faults are sent to the nodes as a part of their state instead. For simulated faults, see
`scheduler/simulate/virtual_faults.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from schedbed.cluster.conditions import ENDS, Conditions, NodeOrders
from schedbed.cluster.faults import PlannedFault
from schedbed.tasks.specs import NodeId


class FaultCalls(Protocol):
    """The calls to the Ray actors of a live cluster that inject faults.

    Each call may raise MasterGone if the actor is down.
    """

    def on_node(self, node: NodeId, kind: str, arguments: Mapping[str, Any]) -> str:
        """Make the node's TaskTracker apply a fault of the given kind, with `arguments` that depend on the
        kind.

        Return the target, such as an attempt's id.
        """
        ...

    def pick_replica(
        self, up: Sequence[NodeId], target: str, nodes: Sequence[NodeId], luck: float
    ) -> tuple[str, NodeId] | None:
        """Return the block and the node of a replica to damage, chosen by the NameNode, or None if there is
        none.

        The replica must be on a running node in `up` and, unless `nodes` is empty, in `nodes`. `target` is a
        block's id or a file's path, or "" for any block. The number `luck`, from 0 to 1, selects one of the
        matching replicas.
        """
        ...

    def kill_tracker(self, node: NodeId) -> None:
        """Kill the TaskTracker of this node only. A new TaskTracker is started later."""
        ...

    def kill_host(self, node: NodeId) -> Sequence[NodeId]:
        """Kill the process that runs the TaskTrackers of the host that `node` is on. Return the nodes on that
        host.

        The process is restarted.
        """
        ...

    def kill_master(self, name: str) -> None:
        """Kill the process of the master `name`, which is `jobtracker` or `namenode`. The process is
        restarted.
        """
        ...

    def hold(self, name: str, for_s: float) -> None:
        """Make the master `name` (`jobtracker` or `namenode`) refuse all calls after its next restart.

        It refuses them until `for_s` emulated seconds from now. The caller must call `hold` before killing
        the master.
        """
        ...


@dataclass(frozen=True, slots=True)
class LiveCluster:
    """The parts of a live cluster that are needed to inject faults.

    `fault_calls` calls the Ray actors. `conditions` contains the faults in force, and `orders` sends the
    effects of these faults to the nodes.
    """

    nodes: Sequence[NodeId]
    fault_calls: FaultCalls
    conditions: Conditions
    orders: NodeOrders

    def up(self) -> list[NodeId]:
        """Return the nodes that are running, which means that no fault has killed or frozen them."""
        return [node for node in self.nodes if not any(self.conditions.has(kind, node) for kind in ENDS)]


Effect = Callable[[LiveCluster, PlannedFault], str]
"""Inject a fault and return its target; return "" if it hit nothing or the fault itself names the target."""


def kill_attempt(cluster: LiveCluster, fault: PlannedFault) -> str:
    """Kill one running attempt that matches the fault. Return the attempt's id, or "" if no attempt matches.

    The search begins at a random node.
    """
    nodes = [node for node in cluster.up() if fault.hits(node)]
    first = int(fault.luck * len(nodes))
    for node in (*nodes[first:], *nodes[:first]):
        hit = cluster.fault_calls.on_node(node, "kill_attempt", {"target": fault.target, "luck": fault.luck})
        if hit:
            return hit
    return ""


def _harm_replica(cluster: LiveCluster, fault: PlannedFault, order: str) -> str:
    found = cluster.fault_calls.pick_replica(cluster.up(), fault.target, fault.nodes, fault.luck)
    if found is None:
        return ""
    block, node = found
    cluster.fault_calls.on_node(node, order, {"block": block})
    return f"{block} on {node}"


def corrupt_replica(cluster: LiveCluster, fault: PlannedFault) -> str:
    """Change one byte of a replica that matches the fault. Return the block and the node, or "" if none
    matches.

    The next reader of the replica detects the change.
    """
    return _harm_replica(cluster, fault, "corrupt_block")


def delete_replica(cluster: LiveCluster, fault: PlannedFault) -> str:
    """Delete a replica that matches the fault from its node's disk.

    Return the block and the node, or "" if no replica matches.
    """
    return _harm_replica(cluster, fault, "delete_block")


def kill_tracker(cluster: LiveCluster, fault: PlannedFault) -> str:
    """Kill the TaskTrackers of the fault's nodes. Return "", since the fault itself contains its targets.

    Each restarted TaskTracker later receives the faults in force on its node.
    """
    for node in fault.nodes:
        cluster.fault_calls.kill_tracker(node)
    cluster.orders.renew(fault.nodes)
    return ""


def kill_host(cluster: LiveCluster, fault: PlannedFault) -> str:
    """Kill all TaskTrackers on the hosts that run the fault's nodes.

    Return the names of all nodes on these hosts, joined by commas. Each restarted TaskTracker later receives
    the faults in force on its node.
    """
    hit: dict[NodeId, None] = {}
    for node in fault.nodes:
        if node not in hit:
            hit |= dict.fromkeys(cluster.fault_calls.kill_host(node))
    cluster.orders.renew(hit)
    return ",".join(hit)


def crash_jobtracker(cluster: LiveCluster, fault: PlannedFault) -> str:
    """Kill the JobTracker's process. Return "", since the fault needs no other target.

    The restarted JobTracker refuses all calls until the fault ends.
    """
    if fault.until_s is not None:
        cluster.fault_calls.hold("jobtracker", fault.until_s - fault.at_s)
    cluster.fault_calls.kill_master("jobtracker")
    return ""


def restart_namenode(cluster: LiveCluster, fault: PlannedFault) -> str:
    """Kill the NameNode's process, which Ray then restarts. Return "", since the fault needs no other
    target.
    """
    cluster.fault_calls.kill_master("namenode")
    return ""


EFFECTS: dict[str, Effect] = {
    "kill_attempt": kill_attempt,
    "corrupt_replica": corrupt_replica,
    "delete_replica": delete_replica,
    "kill_tracker": kill_tracker,
    "kill_host": kill_host,
    "crash_jobtracker": crash_jobtracker,
    "restart_namenode": restart_namenode,
}
"""Effects by kind of fault. Other kinds are states of nodes, which `cluster.conditions` defines."""
