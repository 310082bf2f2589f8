"""The driver's queue of events: pairs of a time and a code, so that events of equal times have a fixed order."""

from __future__ import annotations

from heapq import heappush

FAULT, JOIN, DUE, BLOCKS, NAMES, COPIED, COMMIT, REPLY, EVENT, TIMER, RESEND, TICK, SET_UP, READS = range(14)
"""Kinds of events. What happens at one time happens in this order, and by number within a kind."""

SHIFT = 40
NUMBERS = (1 << SHIFT) - 1


class EventQueue:
    """Events by time, then kind, then number. `now_s` is the time of the last processed event."""

    __slots__ = ("_passed", "_passed_s", "heap", "now_s")

    def __init__(self) -> None:
        self.heap: list[tuple[float, int]] = []
        self.now_s = 0.0
        self._passed_s = -1.0
        self._passed = -1

    def push(self, at_s: float, kind: int, number: int) -> None:
        """Add an event of a kind for `number`."""
        heappush(self.heap, (at_s, kind << SHIFT | number))

    def pass_timers(self, number: int) -> None:
        """Note that the timers of this very time have gone, up to that node's."""
        self._passed_s, self._passed = self.now_s, number

    @property
    def passed(self) -> int:
        """Return the highest index of nodes whose timers of this very time have gone; -1 if none has."""
        return self._passed if self._passed_s == self.now_s else -1
