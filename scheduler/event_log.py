"""The journal as the driver sees it: events in order, with snapshots of the state in between."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

Event = tuple[float, str, tuple[Any, ...]]
"""The time, the kind (a key of `Driver.kinds`, or ANSWERED) and the arguments of what has happened."""
ANSWERED = "answered"
"""Follows an event in the journal, with what a user's policy has answered to the event."""


class EventLog(Protocol):
    """A journal: the events in the order in which they were applied, and the last two snapshots."""

    def append(self, now_s: float, kind: str, *arguments: Any) -> None:
        """Keep one event, before it is applied."""
        ...

    def is_due(self) -> bool:
        """Return whether enough events have followed the last snapshot to write another one."""
        ...

    def keep(self, snapshot: bytes) -> None:
        """Keep a snapshot of the state after the last event. Forget the events before the previous snapshot."""
        ...

    def beginnings(self) -> Iterable[tuple[bytes | None, Iterable[Event]]]:
        """Return the readable snapshots, newest first, each with the events that follow.

        The last entry is None with all events, if no event was forgotten yet.
        """
        ...


class EventList:
    """A journal in memory, for JobTrackers in virtual time."""

    EVERY = 20_000
    """Default number of events from one snapshot to the next."""

    def __init__(self, every: int | None = None) -> None:
        self._every = self.EVERY if every is None else every
        self._events: list[Event] = []
        self._forgotten = 0  # events that came before the list
        self._snapshots: list[tuple[int, bytes]] = []  # with the number of events before each

    def append(self, now_s: float, kind: str, *arguments: Any) -> None:
        """Keep one event."""
        self._events.append((now_s, kind, arguments))

    def events(self, after: int = 0) -> Iterator[Event]:
        """Return the events after the first `after` ones, oldest first."""
        return iter(self._events[after - self._forgotten if after else 0 :])

    def is_due(self) -> bool:
        """Implement `EventLog`."""
        last = self._snapshots[-1][0] if self._snapshots else 0
        return self._forgotten + len(self._events) - last >= self._every

    def keep(self, snapshot: bytes) -> None:
        """Implement `EventLog`."""
        before = self._snapshots[-1:]
        self._snapshots = [*before, (self._forgotten + len(self._events), snapshot)]
        for number, _ in before:
            del self._events[: number - self._forgotten]
            self._forgotten = number

    def beginnings(self) -> Iterator[tuple[bytes | None, Iterable[Event]]]:
        """Implement `EventLog`."""
        for number, snapshot in reversed(self._snapshots):
            yield snapshot, self.events(number)
        if not self._forgotten:
            yield None, self.events()


def with_replies(events: Iterable[Event]) -> Iterator[tuple[Event, Any]]:
    """Yield each event with the policy's answers to it; None if the policy was not asked or the answers were not
    kept."""
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
