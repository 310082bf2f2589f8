"""Fault injection in a live cluster, by a thread that carries out a plan, to which any thread may add."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from math import inf
from typing import Any, Protocol

from schedbed.cluster.conditions import ENDS, Conditions, NodeOrders
from schedbed.cluster.fault_plan import FaultPlan, Row
from schedbed.cluster.faults import KINDS, PlannedFault
from schedbed.cluster.masters import MasterGone
from schedbed.tasks.specs import NodeId

Held = dict[NodeId, list[tuple[str, float | None]]]
"""By node: what the active faults do to it, such as `frozen`, and when each ends (s), or None for the run's end."""
STEP_S = 0.2
"""Seconds until a node that did not answer is tried again."""


class FaultInjector:
    """Injects faults into a live cluster; call `advance` often.

    A node's changed faults are sent to it, again later if it cannot be reached. `always` are in force
    throughout, and `declared` are other programs' loads; neither has rows.
    """

    def __init__(
        self,
        faults: Iterable[PlannedFault],
        nodes: Iterable[NodeId],
        fault_calls: FaultCalls,
        always: Sequence[PlannedFault] = (),
        declared: Iterable[PlannedFault] = (),
    ) -> None:
        names = list(nodes)
        conditions = Conditions(names, always)
        self._orders = NodeOrders(names, conditions, fault_calls.on_node)
        self._cluster = LiveCluster(names, fault_calls, conditions, self._orders)
        self._plan = FaultPlan(faults, conditions, self, declared)
        # Requests of other threads, processed by the injecting thread. A deque needs no lock.
        self._added: deque[PlannedFault] = deque()
        self._renewed: deque[NodeId] = deque()

    def add(self, fault: PlannedFault) -> None:
        """Add a fault to the plan, from any thread."""
        self._added.append(fault)

    def renew(self, nodes: Iterable[NodeId]) -> None:
        """Send faults again to nodes whose TaskTrackers restarted, at the next `advance`. For any thread."""
        self._renewed.extend(nodes)

    def advance(self, now_s: float) -> list[Row]:
        """Begin and end due faults. Return rows of those that have begun."""
        while self._added:
            self._plan.add(self._added[0])
            self._added.popleft()  # After `add`, so that `more_to_come` stays true.
        while self._renewed:
            self._orders.renew([self._renewed.popleft()])
        rows = self._plan.advance(now_s)
        self._orders.settle()
        return rows

    def in_force(self) -> list[tuple[PlannedFault, float | None]]:
        """Return faults in force with their end in seconds or None. For any thread."""
        return self._plan.in_force()

    def held(self) -> tuple[Held, dict[str, float | None]]:
        """Return the faults in force by node, and the ends of those that keep masters down. For any thread."""
        nodes: Held = {}
        masters: dict[str, float | None] = {}
        for fault, end_s in self.in_force():
            kind = KINDS[fault.kind]
            if kind.hits_master:
                masters[kind.target] = end_s
            for node in fault.nodes:
                nodes.setdefault(node, []).append((kind.held, end_s))
        return nodes, masters

    def next_s(self) -> float:
        """Return when `advance` is needed: minus infinity if a fault was added, infinity without any."""
        return -inf if self._added else self._plan.next_s()

    @property
    def more_to_come(self) -> bool:
        return bool(self._added) or self._plan.more_to_come

    def begin(self, now_s: float, fault: PlannedFault) -> str:
        """Apply an instant fault, and return a target that it did not name, "", or "nobody there".

        A lasting one only marks the nodes' state as changed. The last means that the actor is down.
        """
        self._orders.change()
        effect = EFFECTS.get(fault.kind)
        if effect is None:
            return ""
        try:
            return effect(self._cluster, fault)
        except MasterGone:
            return "nobody there"

    def end(self, now_s: float, fault: PlannedFault) -> None:
        """Mark the nodes' state as changed, for the next `advance`. Other code restarts killed processes."""
        self._orders.change()

    def thaw(self) -> None:
        """Thaw the frozen nodes at the end of a run, which lets them continue, so that their files can be read."""
        for node in self._orders.frozen():
            with suppress(MasterGone):
                self._cluster.fault_calls.on_node(node, "thaw", {})


@contextmanager
def injecting(faults: FaultInjector, now_s: Callable[[], float]) -> Iterator[Callable[[], list[Row]]]:
    """Inject faults in a thread, so that a waiting caller does not delay them.

    Yield a function that returns rows of faults begun since its last call, or raises errors of `advance`.
    """
    over, rows, errors = threading.Event(), [], []

    def inject() -> None:
        try:
            while not over.wait(min(STEP_S, max(0.0, faults.next_s() - now_s()))):
                rows.extend(faults.advance(now_s()))
        except Exception as error:
            errors.append(error)

    def take() -> list[Row]:
        if errors:
            raise errors[0]
        count = len(rows)
        taken = rows[:count]
        del rows[:count]
        return taken

    thread = threading.Thread(target=inject, name="faults", daemon=True)
    thread.start()
    try:
        yield take
    finally:
        over.set()
        thread.join()
        faults.thaw()


# Functions that inject the instant faults, such as a killed attempt, into a live cluster.
#
# Lasting faults are sent to the nodes as a part of their state instead. For simulated faults, see
# `scheduler/simulate/virtual_faults.py`.


class FaultCalls(Protocol):
    """Calls to a live cluster's actors that inject faults. Each may raise MasterGone."""

    def on_node(self, node: NodeId, kind: str, arguments: Mapping[str, Any]) -> str:
        """Apply a fault at a node's TaskTracker. Return its target, such as an attempt's id."""
        ...

    def pick_replica(
        self, up: Sequence[NodeId], target: str, nodes: Sequence[NodeId], luck: float
    ) -> tuple[str, NodeId] | None:
        """Return (block, node) of a replica to damage, or None.

        The node is running (in `up`) and in `nodes` unless empty. `target` is a block, a path or "" for any.
        `luck` from 0 to 1 selects one.
        """
        ...

    def kill_tracker(self, node: NodeId) -> None:
        """Kill one node's TaskTracker. A new one is started later."""
        ...

    def kill_host(self, node: NodeId) -> Sequence[NodeId]:
        """Kill the process of a host's TaskTrackers, which is restarted. Return its nodes."""
        ...

    def kill_master(self, name: str) -> None:
        """Kill the process of the master `name`, which is `jobtracker` or `namenode`. The process is restarted."""
        ...

    def hold(self, name: str, for_s: float) -> None:
        """Make a master refuse calls for emulated seconds after its next restart. Call before killing it."""
        ...


@dataclass(frozen=True, slots=True)
class LiveCluster:
    """The parts of a live cluster for faults. `orders` sends the effects of `conditions` to the nodes."""

    nodes: Sequence[NodeId]
    fault_calls: FaultCalls
    conditions: Conditions
    orders: NodeOrders

    def up(self) -> list[NodeId]:
        """Return the nodes that no fault has killed or frozen."""
        return [node for node in self.nodes if not any(self.conditions.has(kind, node) for kind in ENDS)]


Effect = Callable[[LiveCluster, PlannedFault], str]
"""Inject a fault and return its target; return "" if it hit nothing or the fault itself names the target."""


def kill_attempt(cluster: LiveCluster, fault: PlannedFault) -> str:
    """Kill a matching attempt, found from a random node on. Return its id, or ""."""
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
    """Change a byte of a matching replica, which its next reader detects. Return block and node, or ""."""
    return _harm_replica(cluster, fault, "corrupt_block")


def delete_replica(cluster: LiveCluster, fault: PlannedFault) -> str:
    """Delete a matching replica from its disk. Return block and node, or ""."""
    return _harm_replica(cluster, fault, "delete_block")


def kill_tracker(cluster: LiveCluster, fault: PlannedFault) -> str:
    """Kill the nodes' TaskTrackers, which get the faults in force after their restart."""
    for node in fault.nodes:
        cluster.fault_calls.kill_tracker(node)
    cluster.orders.renew(fault.nodes)
    return ""


def kill_host(cluster: LiveCluster, fault: PlannedFault) -> str:
    """Kill all TaskTrackers on the nodes' hosts, which get the faults in force again. Return all nodes."""
    hit: dict[NodeId, None] = {}
    for node in fault.nodes:
        if node not in hit:
            hit |= dict.fromkeys(cluster.fault_calls.kill_host(node))
    cluster.orders.renew(hit)
    return ",".join(hit)


def crash_jobtracker(cluster: LiveCluster, fault: PlannedFault) -> str:
    """Kill the JobTracker, which refuses calls until the fault ends."""
    if fault.until_s is not None:
        cluster.fault_calls.hold("jobtracker", fault.until_s - fault.at_s)
    cluster.fault_calls.kill_master("jobtracker")
    return ""


def restart_namenode(cluster: LiveCluster, fault: PlannedFault) -> str:
    """Kill the NameNode's process, which Ray then restarts. Return "", since the fault needs no other target."""
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
