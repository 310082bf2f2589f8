"""Effects of instant faults on a live cluster, by kind. Lasting faults are sent to nodes as their state.

The simulated effects are in `scheduler/simulate/virtual_faults.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from schedbed.cluster.conditions import ENDS, Conditions, NodeOrders
from schedbed.cluster.faults import PlannedFault
from schedbed.tasks.specs import NodeId


class Hands(Protocol):
    """Access to the actors of a live cluster. Each call may raise MasterGone if its actor is down."""

    def on_node(self, node: NodeId, kind: str, arguments: Mapping[str, Any]) -> str:
        """Make the node's TaskTracker apply a fault. Return what was hit."""
        ...

    def pick_replica(
        self, up: Sequence[NodeId], target: str, nodes: Sequence[NodeId], luck: float
    ) -> tuple[str, NodeId] | None:
        """Return a replica to harm, chosen by the NameNode: its block and node; None if there is none."""
        ...

    def kill_tracker(self, node: NodeId) -> None:
        """Kill the node's TaskTracker only. Another is started."""
        ...

    def kill_host(self, node: NodeId) -> Sequence[NodeId]:
        """Kill the process of all TaskTrackers of the node's host. Return their nodes. Another process starts."""
        ...

    def kill_master(self, name: str) -> None:
        """Kill the process of `jobtracker` or `namenode`; another starts."""
        ...

    def hold(self, name: str, for_s: float) -> None:
        """Keep a master that was killed from serving for that time."""
        ...


@dataclass(frozen=True, slots=True)
class LiveCluster:
    """The cluster as effects of faults use it."""

    nodes: Sequence[NodeId]
    hands: Hands
    conditions: Conditions
    orders: NodeOrders

    def up(self) -> list[NodeId]:
        """Return the nodes that no fault has killed or frozen."""
        return [node for node in self.nodes if not any(self.conditions.has(kind, node) for kind in ENDS)]


Effect = Callable[[LiveCluster, PlannedFault], str]
"""Inject a fault; return what was hit, "" for nothing or for the target that the fault names."""


def kill_attempt(cluster: LiveCluster, fault: PlannedFault) -> str:
    """Kill a running attempt that matches the fault, on the first node that has one. Return its id."""
    nodes = [node for node in cluster.up() if fault.hits(node)]
    first = int(fault.luck * len(nodes))
    for node in (*nodes[first:], *nodes[:first]):
        hit = cluster.hands.on_node(node, "kill_attempt", {"target": fault.target, "luck": fault.luck})
        if hit:
            return hit
    return ""


def _harm_replica(cluster: LiveCluster, fault: PlannedFault, order: str) -> str:
    found = cluster.hands.pick_replica(cluster.up(), fault.target, fault.nodes, fault.luck)
    if found is None:
        return ""
    block, node = found
    cluster.hands.on_node(node, order, {"block": block})
    return f"{block} on {node}"


def corrupt_replica(cluster: LiveCluster, fault: PlannedFault) -> str:
    """Change a byte of a replica. Return which. Its next reader finds that."""
    return _harm_replica(cluster, fault, "corrupt_block")


def delete_replica(cluster: LiveCluster, fault: PlannedFault) -> str:
    """Delete a replica from its node's disk. Return which."""
    return _harm_replica(cluster, fault, "delete_block")


def kill_tracker(cluster: LiveCluster, fault: PlannedFault) -> str:
    """Kill the nodes' TaskTrackers. Each new one gets its node's state."""
    for node in fault.nodes:
        cluster.hands.kill_tracker(node)
    cluster.orders.renew(fault.nodes)
    return ""


def kill_host(cluster: LiveCluster, fault: PlannedFault) -> str:
    """Kill all TaskTrackers of the nodes' hosts. Each new one gets its node's state. Return the nodes."""
    hit: dict[NodeId, None] = {}
    for node in fault.nodes:
        if node not in hit:
            hit |= dict.fromkeys(cluster.hands.kill_host(node))
    cluster.orders.renew(hit)
    return ",".join(hit)


def crash_jobtracker(cluster: LiveCluster, fault: PlannedFault) -> str:
    """Kill the JobTracker, and keep the next one from serving until the fault's end."""
    if fault.until_s is not None:
        cluster.hands.hold("jobtracker", fault.until_s - fault.at_s)
    cluster.hands.kill_master("jobtracker")
    return ""


def restart_namenode(cluster: LiveCluster, fault: PlannedFault) -> str:
    """Kill the NameNode."""
    cluster.hands.kill_master("namenode")
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
"""By kind. A kind without an effect here is a state: `cluster.conditions` says what nodes are told of the state."""
