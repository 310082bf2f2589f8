"""The driver's queue: what happens when, as pairs of a time and a code, so that equal times have one order."""

from __future__ import annotations

from heapq import heappush

FAULT, JOIN, DUE, BLOCKS, NAMES, COPIED, COMMIT, REPLY, EVENT, TIMER, RESEND, TICK, SET_UP, READS = range(14)
"""Kinds of events. What happens at one time happens in this order, and by number within a kind."""

SHIFT = 40
NUMBERS = (1 << SHIFT) - 1


class EventQueue:
    """Events by time, then kind, then number. `now_s` is the time of the last thing that happened."""

    __slots__ = ("_passed", "_passed_s", "heap", "now_s")

    def __init__(self) -> None:
        self.heap: list[tuple[float, int]] = []
        self.now_s = 0.0
        self._passed_s = -1.0
        self._passed = -1

    def push(self, at_s: float, kind: int, number: int) -> None:
        """Something of a kind is to happen to `number`."""
        heappush(self.heap, (at_s, kind << SHIFT | number))

    def pass_timers(self, number: int) -> None:
        """The timers of this very time have had their turn up to that node's."""
        self._passed_s, self._passed = self.now_s, number

    @property
    def passed(self) -> int:
        """Return the nodes whose timers of this very time have had their turn: all with an index up to this."""
        return self._passed if self._passed_s == self.now_s else -1
