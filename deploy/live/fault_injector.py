"""Fault injection in a live cluster, by a thread that carries out a plan of faults in real time.

The faults of a scenario are planned before the run. Any thread may add faults during the run.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from math import inf

from schedbed.cluster.conditions import Conditions, NodeOrders
from schedbed.cluster.fault_plan import FaultPlan, Row
from schedbed.cluster.faults import PlannedFault
from schedbed.cluster.masters import MasterGone
from schedbed.deploy.live.instant_faults import EFFECTS, FaultCalls, LiveCluster
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
