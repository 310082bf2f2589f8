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
        """Append one event, given by its time, kind and arguments.

        Must be called before the event is applied.
        """
        ...

    def is_due(self) -> bool:
        """Return whether enough events were appended since the last snapshot to make a new snapshot."""
        ...

    def keep(self, snapshot: bytes) -> None:
        """Store a snapshot of the state after the last event.

        Events before the previous snapshot are removed.
        """
        ...

    def beginnings(self) -> Iterable[tuple[bytes | None, Iterable[Event]]]:
        """Return the states from which a replay can begin, newest first, each with the events that follow.

        A state is a readable snapshot. If the journal still contains all events of the run, the last entry is
        the pair of None (the state before the first event) and all events.
        """
        ...


class EventList:
    """A journal in memory, for JobTrackers in virtual time.

    `every` is the number of events from one snapshot to the next.
    """

    EVERY = 20_000
    """Default number of events from one snapshot to the next."""

    def __init__(self, every: int | None = None) -> None:
        self._every = self.EVERY if every is None else every
        self._events: list[Event] = []
        self._forgotten = 0  # Number of events removed before the list.
        self._snapshots: list[tuple[int, bytes]] = []  # Number of events before each snapshot.

    def append(self, now_s: float, kind: str, *arguments: Any) -> None:
        """Append one event to the list."""
        self._events.append((now_s, kind, arguments))

    def events(self, after: int = 0) -> Iterator[Event]:
        """Return the events that the list still contains, oldest first, without the first `after` events.

        The events of the run are numbered from 1, and `after` is such a number.
        """
        return iter(self._events[after - self._forgotten if after else 0 :])

    def is_due(self) -> bool:
        """Implement `EventLog.is_due`: return whether `every` events followed the last snapshot."""
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
    """Yield pairs of an event from the journal and the answers that the policy gave during that event.

    The answers are a separate entry of the journal, after the event's entry. They are None if the policy was
    not called during the event, or if its answers were not recorded.
    """
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
