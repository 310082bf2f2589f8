"""Fault injection in a live cluster, by a thread that carries out a plan of faults in real time.

The faults of a scenario are planned before the run. Any thread may add faults during the run.
"""

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
from schedbed.cluster.faults import PlannedFault
from schedbed.cluster.masters import MasterGone
from schedbed.tasks.specs import NodeId

STEP_S = 0.2
"""Seconds until a node that did not answer is tried again."""


class FaultInjector:
    """An injector of faults into a live cluster.

    The caller must call `advance` often to begin and end due faults. When the faults in force on a node
    change, all of them are sent to the node, and sent again later if the node cannot be reached. `always`
    contains faults that are in force during the whole run. `declared` contains the loads that other users'
    programs put on nodes, which are planned like faults. The table of faults has no rows for `always` and
    `declared`.
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
        """Add a fault to the plan. Any thread may call this method."""
        self._added.append(fault)

    def renew(self, nodes: Iterable[NodeId]) -> None:
        """Make the next `advance` send the faults in force to these nodes, whose TaskTrackers have restarted.

        Any thread may call this method.
        """
        self._renewed.extend(nodes)

    def advance(self, now_s: float) -> list[Row]:
        """Begin and end the faults that are due at time `now_s`.

        Return a row of the table of faults for each fault that has begun.
        """
        while self._added:
            self._plan.add(self._added[0])
            self._added.popleft()  # After `add`, so that `more_to_come` stays true.
        while self._renewed:
            self._orders.renew([self._renewed.popleft()])
        rows = self._plan.advance(now_s)
        self._orders.settle()
        return rows

    def in_force(self) -> list[tuple[PlannedFault, float | None]]:
        """Return the faults in force, each with its end in seconds, or with None if it has no end.

        Any thread may call this method.
        """
        return self._plan.in_force()

    def next_s(self) -> float:
        """Return the time in seconds at which `advance` must be called next.

        The time is negative infinity if a fault was added since the last `advance`, and infinity if no fault
        is planned.
        """
        return -inf if self._added else self._plan.next_s()

    @property
    def more_to_come(self) -> bool:
        """Return whether a fault is still planned to begin or end."""
        return bool(self._added) or self._plan.more_to_come

    def begin(self, now_s: float, fault: PlannedFault) -> str:
        """Apply an instant fault and return its target, such as an attempt's id.

        For a lasting fault, only note that the state of the nodes has changed, and return "". For an instant
        fault, the result is also "" if the fault itself names its targets, or if nothing matched the fault.
        Return "nobody there" if the actor that must apply the fault is down.
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
        """Note that the state of the nodes has changed, because a lasting fault has ended.

        The next `advance` then sends the new state to the nodes. Processes that the fault has killed are
        restarted by other code.
        """
        self._orders.change()

    def thaw(self) -> None:
        """Thaw the frozen nodes at the end of a run, which lets them continue, so that their files can be
        read.
        """
        for node in self._orders.frozen():
            with suppress(MasterGone):
                self._cluster.fault_calls.on_node(node, "thaw", {})


@contextmanager
def injecting(faults: FaultInjector, now_s: Callable[[], float]) -> Iterator[Callable[[], list[Row]]]:
    """Inject the faults from a separate thread during the `with` block, so that a waiting caller does not
    delay them.

    `now_s` returns the current time of the run. Yield a function that returns the rows of faults that have
    begun since its last call. The function raises the errors of `FaultInjector.advance`.
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
