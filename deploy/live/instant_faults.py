"""Effects of instant faults on a live cluster, by kind. Lasting faults are sent to nodes as a part of their
state.

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
    """The calls to the actors of a live cluster that faults need.

    Each call may raise MasterGone if its actor is down.
    """

    def on_node(self, node: NodeId, kind: str, arguments: Mapping[str, Any]) -> str:
        """Make the node's TaskTracker apply a fault. Return the target that the fault hit."""
        ...

    def pick_replica(
        self, up: Sequence[NodeId], target: str, nodes: Sequence[NodeId], luck: float
    ) -> tuple[str, NodeId] | None:
        """Return the block and node of a replica to damage, chosen by the NameNode; None if there is none.

        `up` are the nodes that run, `target` and `nodes` restrict the choice, and `luck` (0 to 1) makes it.
        """
        ...

    def kill_tracker(self, node: NodeId) -> None:
        """Kill the node's TaskTracker only. A new one is started later."""
        ...

    def kill_host(self, node: NodeId) -> Sequence[NodeId]:
        """Kill the process of all TaskTrackers on the node's host.

        A new one starts. Return the nodes on that host.
        """
        ...

    def kill_master(self, name: str) -> None:
        """Kill the process of the master `jobtracker` or `namenode`. A new one starts."""
        ...

    def hold(self, name: str, for_s: float) -> None:
        """Keep a master from serving for `for_s` emulated seconds. Called before the master is killed."""
        ...


@dataclass(frozen=True, slots=True)
class LiveCluster:
    """The parts of a live cluster that effects of faults use.

    `hands` calls the actors, `conditions` has the faults in force, `orders` sends the resulting state to
    nodes.
    """

    nodes: Sequence[NodeId]
    hands: Hands
    conditions: Conditions
    orders: NodeOrders

    def up(self) -> list[NodeId]:
        """Return the nodes that no fault has killed or frozen."""
        return [node for node in self.nodes if not any(self.conditions.has(kind, node) for kind in ENDS)]


Effect = Callable[[LiveCluster, PlannedFault], str]
"""Inject a fault and return its target; return "" if it hit nothing or the fault itself names the target."""


def kill_attempt(cluster: LiveCluster, fault: PlannedFault) -> str:
    """Kill a running attempt that matches the fault. Return the attempt's id, or "" if none matches.

    The nodes are searched from a random position on.
    """
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
    """Change a byte of a replica.

    Return the block and node. The next reader of the replica detects the change.
    """
    return _harm_replica(cluster, fault, "corrupt_block")


def delete_replica(cluster: LiveCluster, fault: PlannedFault) -> str:
    """Delete a replica from its node's disk. Return the block and node."""
    return _harm_replica(cluster, fault, "delete_block")


def kill_tracker(cluster: LiveCluster, fault: PlannedFault) -> str:
    """Kill the TaskTrackers of the fault's nodes. Each new TaskTracker receives its node's state."""
    for node in fault.nodes:
        cluster.hands.kill_tracker(node)
    cluster.orders.renew(fault.nodes)
    return ""


def kill_host(cluster: LiveCluster, fault: PlannedFault) -> str:
    """Kill all TaskTrackers on the hosts of the fault's nodes. Return the nodes on these hosts, joined by
    commas.

    Each new TaskTracker receives its node's state.
    """
    hit: dict[NodeId, None] = {}
    for node in fault.nodes:
        if node not in hit:
            hit |= dict.fromkeys(cluster.hands.kill_host(node))
    cluster.orders.renew(hit)
    return ",".join(hit)


def crash_jobtracker(cluster: LiveCluster, fault: PlannedFault) -> str:
    """Kill the JobTracker, and keep the next one from serving until the end of the fault."""
    if fault.until_s is not None:
        cluster.hands.hold("jobtracker", fault.until_s - fault.at_s)
    cluster.hands.kill_master("jobtracker")
    return ""


def restart_namenode(cluster: LiveCluster, fault: PlannedFault) -> str:
    """Kill the NameNode's process. Ray starts a new one."""
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
"""Effects by kind of fault. Other kinds are states of nodes, which `cluster.conditions` defines."""
