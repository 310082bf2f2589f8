"""The event queue of a simulation: pairs of a time and a code, so that events at the same time have a fixed
order."""

from __future__ import annotations

from heapq import heappush

FAULT, JOIN, DUE, BLOCKS, NAMES, COPIED, COMMIT, REPLY, EVENT, TIMER, RESEND, TICK, SET_UP, READS = range(14)
"""Kinds of events. Events at the same time are processed in this order, and by number within a kind."""

SHIFT = 40
NUMBERS = (1 << SHIFT) - 1


class EventQueue:
    """The future events, sorted by time, then kind, then number. `now_s`: time of the last processed
    event."""

    __slots__ = ("_passed", "_passed_s", "heap", "now_s")

    def __init__(self) -> None:
        self.heap: list[tuple[float, int]] = []
        self.now_s = 0.0
        self._passed_s = -1.0
        self._passed = -1

    def push(self, at_s: float, kind: int, number: int) -> None:
        """Add an event at `at_s`. `number` identifies its object: a node's index or the serial of a
        message."""
        heappush(self.heap, (at_s, kind << SHIFT | number))

    def pass_timers(self, number: int) -> None:
        """Record that the heartbeat timers due at the current time have fired, up to the node with index
        `number`."""
        self._passed_s, self._passed = self.now_s, number

    @property
    def passed(self) -> int:
        """Return the highest index of a node whose heartbeat timer has fired at the current time; -1 if none
        has."""
        return self._passed if self._passed_s == self.now_s else -1
