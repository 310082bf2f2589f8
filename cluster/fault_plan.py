"""The plan of a run's faults: begins and ends in order, the faults in force, and a row of faults.parquet for each.

Live runs, the simulator and the fault finder of the tests use this plan, and provide only the effects.
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
    """The effects of faults. The conditions contain the fault during `begin`, and no longer during `end`."""

    def begin(self, now_s: float, fault: PlannedFault) -> str:
        """Apply a fault. Return what was hit; "" if it is the target that the fault names."""
        ...

    def end(self, now_s: float, fault: PlannedFault) -> None:
        """Undo a fault that was injected."""
        ...


class FaultPlan:
    """Begins and ends faults at their times, in order of time, then in the order in which they were added.

    A fault that begins late still lasts as long as planned. `declared` are permanent loads of nodes
    (`conditions.foreground_slowdowns`), which have no rows.
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
        """Add a fault. The first step at or after its time begins it."""
        self._added += 1
        heappush(self._due, (fault.at_s, self._added, False, fault))

    def next_s(self) -> float:
        """Return the time of the next begin or end of a fault; infinity if there is none."""
        return self._due[0][0] if self._due else inf

    @property
    def more_to_come(self) -> bool:
        """Return whether a fault, or the end of one, is still ahead."""
        return bool(self._due)

    def in_force(self) -> list[tuple[PlannedFault, float | None]]:
        """Return the faults in force, without declared ones, each with its end; None for a fault without an end."""
        return list(self._in_force.values())

    def step(self, now_s: float) -> Row | None:
        """Begin or end the next fault. Return the row of a fault that begins, unless it is declared."""
        _, number, ends, fault = heappop(self._due)
        if ends:
            self._conditions.end(fault)
            self._in_force.pop(number, None)
            self._effects.end(now_s, fault)
            return None
        late_s = now_s - fault.at_s
        end_s = None if fault.back_s is None else fault.back_s + late_s
        if end_s is not None:
            # The end is planned before the effect, which may take long live: `more_to_come` must not miss it.
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
        """Begin and end all faults that are due. Return the rows of those that begin."""
        rows: list[Row] = []
        while self.next_s() <= now_s:
            row = self.step(now_s)
            if row is not None:
                rows.append(row)
        return rows
