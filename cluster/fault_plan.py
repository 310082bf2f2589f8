"""The schedule of a run's faults, for live runs, the simulator and the fault search, each with its `Effects`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from heapq import heappop, heappush
from math import inf
from typing import Protocol

from schedbed.cluster.conditions import Conditions
from schedbed.cluster.faults import KINDS, PlannedFault

Row = tuple[float, str, str, float | None]
"""A row of faults.parquet: t, kind, target, until."""


class Effects(Protocol):
    """Applies a `FaultPlan`. Its `Conditions` gain a fault before `begin` and lose it before `end`."""

    def begin(self, now_s: float, fault: PlannedFault) -> str:
        """Apply a fault. Return the attempt or replica that was chosen, or "" if none had to be or matched."""
        ...

    def end(self, now_s: float, fault: PlannedFault) -> None:
        """Undo the effect of a fault at time `now_s`."""
        ...


class FaultPlan:
    """The starts and ends of faults, by time and then addition. A late start delays the end as much.

    `declared` are nodes' foreground loads, as faults without rows in faults.parquet.
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
        """Add a fault, which begins at the first `step` or `advance` from `at_s` on."""
        self._added += 1
        heappush(self._due, (fault.at_s, self._added, False, fault))

    def next_s(self) -> float:
        """Return the time of the next start or end, or infinity."""
        return self._due[0][0] if self._due else inf

    @property
    def more_to_come(self) -> bool:
        return bool(self._due)

    def in_force(self) -> list[tuple[PlannedFault, float | None]]:
        """Return (active fault, its end or None), without the foreground loads that nodes declare.

        A fault has all nodes that it hit, such as those of a killed host.
        """
        return list(self._in_force.values())

    def step(self, now_s: float) -> Row | None:
        """Start or end the next fault. Return a start's row of faults.parquet, unless it is a declared load."""
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
        if hit and number in self._in_force and KINDS[fault.kind].target == "nodes":
            self._in_force[number] = replace(fault, nodes=tuple(hit.split(","))), end_s
        if number <= self._declared:
            return None
        until_s = None if fault.until_s is None else fault.until_s + late_s
        return now_s, fault.kind, hit or fault.shown, until_s

    def advance(self, now_s: float) -> list[Row]:
        """Begin or end all faults that are due. Return the rows of those that begin."""
        rows: list[Row] = []
        while self.next_s() <= now_s:
            row = self.step(now_s)
            if row is not None:
                rows.append(row)
        return rows
