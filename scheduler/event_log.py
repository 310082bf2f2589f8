"""The journal interface that the driver uses: events in order, with snapshots of the state in between."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

Event = tuple[float, str, tuple[Any, ...]]
"""An event: its time, its kind (a key of `Driver.kinds`, or ANSWERED), and its arguments."""
ANSWERED = "answered"
"""The kind of the journal entry that follows an event and holds a user's policy's answers to it."""


class EventLog(Protocol):
    """The protocol of a journal: events in the order of application, and the last two state snapshots."""

    def append(self, now_s: float, kind: str, *arguments: Any) -> None:
        """Append one event, given by its time, kind and arguments. Must be called before the event is applied."""
        ...

    def is_due(self) -> bool:
        """Return whether enough events were appended since the last snapshot to make a new snapshot."""
        ...

    def keep(self, snapshot: bytes) -> None:
        """Store a snapshot of the state after the last event. Events before the previous snapshot are removed."""
        ...

    def beginnings(self) -> Iterable[tuple[bytes | None, Iterable[Event]]]:
        """Return (state, later events) from which a replay can begin, newest first.

        A state is a readable snapshot, or at last None with all events of the run if the journal still has
        them.
        """
        ...


class EventList:
    """A journal in memory, for virtual time. `every` events follow one snapshot to the next."""

    EVERY = 20_000
    """Default number of events from one snapshot to the next."""

    def __init__(self, every: int | None = None) -> None:
        self._every = self.EVERY if every is None else every
        self._events: list[Event] = []
        self._forgotten = 0  # Number of events removed before the list.
        self._snapshots: list[tuple[int, bytes]] = []  # Number of events before each snapshot.

    def append(self, now_s: float, kind: str, *arguments: Any) -> None:
        self._events.append((now_s, kind, arguments))

    def events(self, after: int = 0) -> Iterator[Event]:
        """Return the events kept after number `after`; the run's events count from 1."""
        return iter(self._events[after - self._forgotten if after else 0 :])

    def is_due(self) -> bool:
        last = self._snapshots[-1][0] if self._snapshots else 0
        return self._forgotten + len(self._events) - last >= self._every

    def keep(self, snapshot: bytes) -> None:
        """Implement `EventLog.keep`: store the snapshot, and remove events before the previous snapshot."""
        before = self._snapshots[-1:]
        self._snapshots = [*before, (self._forgotten + len(self._events), snapshot)]
        for number, _ in before:
            del self._events[: number - self._forgotten]
            self._forgotten = number

    def beginnings(self) -> Iterator[tuple[bytes | None, Iterable[Event]]]:
        """Implement `EventLog.beginnings`: yield the snapshots, newest first, with the events after each."""
        for number, snapshot in reversed(self._snapshots):
            yield snapshot, self.events(number)
        if not self._forgotten:
            yield None, self.events()


def with_replies(events: Iterable[Event]) -> Iterator[tuple[Event, Any]]:
    """Yield each event with the policy's answers, a separate entry after it, or None without any."""
    waiting: Event | None = None
    for event in events:
        if event[1] == ANSWERED:
            assert waiting is not None, "answers follow an event"
            yield waiting, event[2][0]
            waiting = None
            continue
        if waiting is not None:
            yield waiting, None
        waiting = event
    if waiting is not None:
        yield waiting, None
