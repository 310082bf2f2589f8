"""A queue of events in virtual time. The due time of an event may change while the event is queued."""

from __future__ import annotations

import math
from heapq import heappop, heappush
from typing import Protocol


class Owner(Protocol):
    """The interface of objects that own items of an agenda, and handle each item at its due time."""

    def fire(self, item: Item) -> None:
        """Handle a due item."""
        ...


class Nobody:
    """The owner of canceled items. Canceled items must never become due; if one does, an error is raised."""

    def fire(self, item: Item) -> None:
        """Raise AssertionError, since a canceled item must never become due."""
        raise AssertionError("a canceled item was due")


NOBODY = Nobody()


class Item:
    """An event that is due at `due_s` (infinite if not scheduled), of the kind `role` to its `owner`.

    `queued_s` is the time of its entry in the heap, earlier than `due_s` after it was postponed.
    """

    __slots__ = ("due_s", "owner", "queued_s", "role")

    def __init__(self, owner: Owner, role: int) -> None:
        self.owner = owner
        self.role = role
        self.due_s = self.queued_s = math.inf


class Agenda:
    """A priority queue of items by due time, then by queuing. A postponed item is queued again when reached."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._heap: list[tuple[float, int, Item]] = []
        self._serial = 0

    def at(self, due_s: float, item: Item) -> None:
        """Schedule an item at `due_s`, replacing its earlier due time. Infinity unschedules the item."""
        item.due_s = due_s
        if due_s < item.queued_s:
            item.queued_s = due_s
            self._serial += 1
            heappush(self._heap, (due_s, self._serial, item))

    def cancel(self, item: Item) -> None:
        """Unschedule an item permanently, and drop its owner to free memory."""
        item.due_s, item.owner = math.inf, NOBODY

    def next_s(self) -> float:
        """Return the earliest due time of all items, or infinity if no item is scheduled."""
        heap = self._heap
        while heap:
            at_s, _, item = heap[0]
            if item.due_s == at_s:
                return at_s
            heappop(heap)
            if item.queued_s == at_s:
                item.queued_s = math.inf
                if item.due_s < math.inf:
                    self.at(item.due_s, item)
        return math.inf

    def pop(self) -> Item:
        """Remove the first item and set the time to its due time. Call just after a finite `next_s`."""
        self.now_s, _, item = heappop(self._heap)
        item.queued_s = item.due_s = math.inf
        return item
