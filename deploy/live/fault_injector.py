"""Faults on a live cluster at their times: the plan of `cluster.fault_plan`, driven by the clock.

Faults of a run are planned before the run; others may be added by hand while the run goes on, from any thread.
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
from schedbed.deploy.live.instant_faults import EFFECTS, Hands, LiveCluster
from schedbed.tasks.specs import NodeId

STEP_S = 0.2
"""How long until a node that did not answer is tried again."""


class FaultInjector:
    """Inject faults into a live cluster; `advance` is called often and does what is due.

    Each node is told its whole state when the state changes, and again when the node was not there to hear. What is
    `always` in force or `declared` by nodes is no event: it has no row.
    """

    def __init__(
        self,
        faults: Iterable[PlannedFault],
        nodes: Iterable[NodeId],
        hands: Hands,
        always: Sequence[PlannedFault] = (),
        declared: Iterable[PlannedFault] = (),
    ) -> None:
        names = list(nodes)
        conditions = Conditions(names, always)
        self._orders = NodeOrders(names, conditions, hands.on_node)
        self._cluster = LiveCluster(names, hands, conditions, self._orders)
        self._plan = FaultPlan(faults, conditions, self, declared)
        # What other threads ask for waits here for the thread that injects: a deque needs no lock.
        self._added: deque[PlannedFault] = deque()
        self._renewed: deque[NodeId] = deque()

    def add(self, fault: PlannedFault) -> None:
        """Plan one more fault, from any thread."""
        self._added.append(fault)

    def renew(self, nodes: Iterable[NodeId]) -> None:
        """Have the next `advance` tell these nodes their state: their TaskTrackers have started again.

        From any thread.
        """
        self._renewed.extend(nodes)

    def advance(self, now_s: float) -> list[Row]:
        """Do what is due; return the rows of what has begun."""
        while self._added:
            self._plan.add(self._added[0])
            self._added.popleft()  # only now, so that `more_to_come` holds in between
        while self._renewed:
            self._orders.renew([self._renewed.popleft()])
        rows = self._plan.advance(now_s)
        self._orders.settle()
        return rows

    def in_force(self) -> list[tuple[PlannedFault, float | None]]:
        """See `FaultPlan.in_force`; from any thread."""
        return self._plan.in_force()

    def next_s(self) -> float:
        """Return when `advance` has something to do next; infinite when nothing is due."""
        return -inf if self._added else self._plan.next_s()

    @property
    def more_to_come(self) -> bool:
        """Return whether a fault, or the end of one, is still ahead."""
        return bool(self._added) or self._plan.more_to_come

    def begin(self, now_s: float, fault: PlannedFault) -> str:
        """Inject what happens once; what lasts is told to the nodes by `advance`."""
        self._orders.change()
        effect = EFFECTS.get(fault.kind)
        if effect is None:
            return ""
        try:
            return effect(self._cluster, fault)
        except MasterGone:
            return "nobody there"

    def end(self, now_s: float, fault: PlannedFault) -> None:
        """Have nodes told that the fault is over; killed processes come back by themselves."""
        self._orders.change()

    def thaw(self) -> None:
        """Thaw the nodes that stand still, at the end of a run, so that what lies there can be read."""
        for node in self._orders.frozen():
            with suppress(MasterGone):
                self._cluster.hands.on_node(node, "thaw", {})


@contextmanager
def injecting(faults: FaultInjector, now_s: Callable[[], float]) -> Iterator[Callable[[], list[Row]]]:
    """Inject the faults from a thread of their own, so that they come in time whatever else is waited for.

    Yield a function that returns the rows of what has begun since its last call, and raises what `advance` raised.
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
