"""The event queue. A number for kind and object gives events at the same time a fixed order."""

from __future__ import annotations

from heapq import heappush

(
    FAULT,
    JOIN,
    DUE,
    BLOCKS,
    NAMES,
    COPIED,
    COMMIT,
    REPLY,
    EVENT,
    TIMER,
    RESEND,
    TICK,
    SET_UP,
    READS,
    ALLOCATE,
) = range(15)
"""Kinds of events. Events at the same time are processed in this order, and by number within a kind."""

SHIFT = 40
NUMBERS = (1 << SHIFT) - 1


class EventQueue:
    """Future events by time, kind and number. `now_s` is the time of the last processed one."""

    __slots__ = ("_passed", "_passed_s", "heap", "now_s")

    def __init__(self) -> None:
        self.heap: list[tuple[float, int]] = []
        self.now_s = 0.0
        self._passed_s = -1.0
        self._passed = -1

    def push(self, at_s: float, kind: int, number: int) -> None:
        """Add an event. `number` is a node's index or a message's serial number."""
        heappush(self.heap, (at_s, kind << SHIFT | number))

    def has_before(self, at_s: float, kind: int, number: int) -> bool:
        """Return whether the queue has an event before this one."""
        return bool(self.heap) and self.heap[0] < (at_s, kind << SHIFT | number)

    def pass_timers(self, number: int) -> None:
        """Note that the timers due now have fired for nodes up to `number`."""
        self._passed_s, self._passed = self.now_s, number

    @property
    def passed(self) -> int:
        """Return the highest index of a node whose heartbeat timer has fired at the current time, or -1 if none has."""
        return self._passed if self._passed_s == self.now_s else -1
