"""The schedule of a run's faults.

It begins and ends each fault at its time and returns rows of faults.parquet. Live runs, the simulator and the
fault search in the tests all use this schedule. Each of them implements `Effects` to apply the faults to its
own kind of cluster.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush
from math import inf
from typing import Protocol

from schedbed.cluster.conditions import Conditions
from schedbed.cluster.faults import PlannedFault

Row = tuple[float, str, str, float | None]
"""A row of faults.parquet: t, kind, target, until."""


class Effects(Protocol):
    """The interface through which a `FaultPlan` applies faults to a live or simulated cluster.

    The plan adds a fault to its `Conditions` (the record of active faults) before it calls `begin`, and
    removes the fault before it calls `end`.
    """

    def begin(self, now_s: float, fault: PlannedFault) -> str:
        """Apply a fault at time `now_s`.

        Return the name of the attempt or replica that was chosen as the target. Return "" if nothing had to
        be chosen, because the fault names its target, or nothing matched.
        """
        ...

    def end(self, now_s: float, fault: PlannedFault) -> None:
        """Undo the effect of a fault at time `now_s`."""
        ...


class FaultPlan:
    """A queue of events (the start or end of a fault), ordered by time and then by the order of addition.

    If a fault starts late, its end is delayed by the same time. The plan adds active faults to `conditions`
    and calls `effects` to apply them. `declared` are the foreground loads of nodes (CPU use by other
    programs), as faults that have no rows in faults.parquet (`conditions.foreground_slowdowns`).
    """

    def __init__(
        self,
        faults: Iterable[PlannedFault],
        conditions: Conditions,
        effects: Effects,
        declared: Iterable[PlannedFault] = (),
    ) -> None:
        self._conditions = conditions
        self._effects = effects
        self._due: list[tuple[float, int, bool, PlannedFault]] = []  # the third says whether the fault ends
        self._in_force: dict[int, tuple[PlannedFault, float | None]] = {}
        self._added = 0
        for fault in declared:
            self.add(fault)
        self._declared = self._added
        for fault in faults:
            self.add(fault)

    def add(self, fault: PlannedFault) -> None:
        """Add a fault. It begins at the first `step` or `advance` at or after its time `at_s`."""
        self._added += 1
        heappush(self._due, (fault.at_s, self._added, False, fault))

    def next_s(self) -> float:
        """Return the time in seconds of the next start or end of a fault, or infinity if there is none."""
        return self._due[0][0] if self._due else inf

    @property
    def more_to_come(self) -> bool:
        """Return whether the start or end of any fault is still to come."""
        return bool(self._due)

    def in_force(self) -> list[tuple[PlannedFault, float | None]]:
        """Return a list of (active fault, end time in seconds). The end time is None for a fault without end.

        The foreground loads that nodes declare (CPU use by other programs) are not included.
        """
        return list(self._in_force.values())

    def step(self, now_s: float) -> Row | None:
        """Start or end the next fault at time `now_s`. If a fault starts, return its row of faults.parquet.

        Return None if a fault ends, or if the fault is a foreground load that a node declares.
        """
        _, number, ends, fault = heappop(self._due)
        if ends:
            self._conditions.end(fault)
            self._in_force.pop(number, None)
            self._effects.end(now_s, fault)
            return None
        late_s = now_s - fault.at_s
        end_s = None if fault.back_s is None else fault.back_s + late_s
        if end_s is not None:
            # The effect may take long in live runs. Until then `more_to_come` must be true.
            heappush(self._due, (end_s, number, True, fault))
        if fault.lasts:
            self._conditions.begin(fault)
            if number > self._declared:
                self._in_force[number] = fault, end_s
        hit = self._effects.begin(now_s, fault)
        if number <= self._declared:
            return None
        until_s = None if fault.until_s is None else fault.until_s + late_s
        return now_s, fault.kind, hit or fault.shown, until_s

    def advance(self, now_s: float) -> list[Row]:
        """Begin or end all faults that are due at time `now_s`.

        Return the rows for faults.parquet of the faults that begin.
        """
        rows: list[Row] = []
        while self.next_s() <= now_s:
            row = self.step(now_s)
            if row is not None:
                rows.append(row)
        return rows
