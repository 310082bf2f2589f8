"""What will happen in virtual time: items by the time when they are due, which may change while they wait."""

from __future__ import annotations

import math
from heapq import heappop, heappush
from typing import Protocol


class Owner(Protocol):
    """Whoever is told when an item is due."""

    def fire(self, item: Item) -> None:
        """The item's time has come."""
        ...


class Nobody:
    """The owner of what will never be due."""

    def fire(self, item: Item) -> None:
        """Never called."""
        raise AssertionError("a cancelled item was due")


NOBODY = Nobody()


class Item:
    """Something due at `due_s`; infinite while it is not. `queued_s` is when the agenda looks at it next."""

    __slots__ = ("due_s", "owner", "queued_s", "role")

    def __init__(self, owner: Owner, role: int) -> None:
        self.owner = owner
        self.role = role
        self.due_s = self.queued_s = math.inf


class Agenda:
    """Items in the order (time, time of entry). An item that is due later than expected is moved when it comes up."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._heap: list[tuple[float, int, Item]] = []
        self._serial = 0

    def at(self, due_s: float, item: Item) -> None:
        """The item is due then, whatever was said before; infinite takes it off."""
        item.due_s = due_s
        if due_s < item.queued_s:
            item.queued_s = due_s
            self._serial += 1
            heappush(self._heap, (due_s, self._serial, item))

    def cancel(self, item: Item) -> None:
        """The item will never be due. It forgets its owner, so that neither keeps the other alive."""
        item.due_s, item.owner = math.inf, NOBODY

    def next_s(self) -> float:
        """Return when the first item is due; infinite when none is."""
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
        """Takes the first item (after `next_s` said that there is one) and goes to its time."""
        self.now_s, _, item = heappop(self._heap)
        item.queued_s = item.due_s = math.inf
        return item
