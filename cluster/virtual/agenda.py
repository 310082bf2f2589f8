"""Events in virtual time: items ordered by due times, which may change while the items wait."""

from __future__ import annotations

import math
from heapq import heappop, heappush
from typing import Protocol


class Owner(Protocol):
    """An object that is called when an item is due."""

    def fire(self, item: Item) -> None:
        """Handle an item that is due."""
        ...


class Nobody:
    """The owner of items that will never be due."""

    def fire(self, item: Item) -> None:
        """Raise AssertionError, since a canceled item must never be due."""
        raise AssertionError("a canceled item was due")


NOBODY = Nobody()


class Item:
    """Something due at `due_s`; infinite if it is not scheduled. `queued_s` is when the agenda looks at it next."""

    __slots__ = ("due_s", "owner", "queued_s", "role")

    def __init__(self, owner: Owner, role: int) -> None:
        self.owner = owner
        self.role = role
        self.due_s = self.queued_s = math.inf


class Agenda:
    """Items in the order (time, time of entry). An item whose due time was postponed is moved when it comes up."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._heap: list[tuple[float, int, Item]] = []
        self._serial = 0

    def at(self, due_s: float, item: Item) -> None:
        """Schedule the item at that time, in place of an earlier one. Infinity unschedules it."""
        item.due_s = due_s
        if due_s < item.queued_s:
            item.queued_s = due_s
            self._serial += 1
            heappush(self._heap, (due_s, self._serial, item))

    def cancel(self, item: Item) -> None:
        """Unschedule an item for ever. Its owner is dropped, so that neither keeps the other in memory."""
        item.due_s, item.owner = math.inf, NOBODY

    def next_s(self) -> float:
        """Return when the first item is due; infinity if there is none."""
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
        """Remove and return the first item, and set the current time to the item's. `next_s` must have been finite."""
        self.now_s, _, item = heappop(self._heap)
        item.queued_s = item.due_s = math.inf
        return item
