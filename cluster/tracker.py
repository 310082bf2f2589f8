"""The TaskTracker as a value machine: what it reports and what it has been told, without any I/O.

Live and simulated drivers share it; they carry its heartbeats to the JobTracker and its actions to the node.
"""

from __future__ import annotations

from collections.abc import Iterable

from schedbed.cluster.messages import (
    NO_USAGE,
    Action,
    AttemptReport,
    AttemptStatus,
    FetchFailure,
    Heartbeat,
    Launch,
    Reply,
    Reregister,
    Usage,
)
from schedbed.tasks.specs import NodeId


class Tracker:
    """One life (incarnation) of a node, as it is told to the JobTracker.

    A heartbeat stays the same until its reply has come, so that a resend is recognised by its sequence; what
    ends in the meantime waits for the next one.
    """

    def __init__(self, node: NodeId, incarnation: int) -> None:
        self.node = node
        self.incarnation = incarnation
        self._sequence = 0
        self._sent: Heartbeat | None = None
        self._running: dict[str, AttemptStatus] = {}
        self._finished: list[AttemptReport] = []
        self._fetch_failures: list[FetchFailure] = []
        self._usage = NO_USAGE

    @property
    def running(self) -> tuple[str, ...]:
        """Attempts that were launched here and have not ended."""
        return tuple(self._running)

    @property
    def has_news(self) -> bool:
        """Whether something ended that no heartbeat has carried yet."""
        return bool(self._finished or self._fetch_failures)

    def beat(self) -> Heartbeat:
        """The next heartbeat, or again the one whose reply is still missing."""
        if self._sent is None:
            self._sequence += 1
            self._sent = Heartbeat(
                self.node,
                self.incarnation,
                self._sequence,
                tuple(self._running.values()),
                tuple(self._finished),
                tuple(self._fetch_failures),
                self._usage,
            )
            self._finished.clear()
            self._fetch_failures.clear()
        return self._sent

    def on_reply(self, reply: Reply) -> tuple[Action, ...]:
        """Takes the JobTracker's answer; returns what the driver must do. A late answer to an old beat does nothing."""
        actions = reply.actions
        if len(actions) == 1 and isinstance(actions[0], Reregister):
            return actions
        if self._sent is None or reply.sequence != self._sent.sequence:
            return ()
        self._sent = None
        for action in actions:
            if isinstance(action, Launch):
                self._running[action.attempt] = AttemptStatus(action.attempt, 0.0, "start")
        return actions

    def on_running(self, statuses: Iterable[AttemptStatus], usage: Usage) -> None:
        """What the node says of itself; attempts it lists that were not launched here are ignored."""
        self._usage = usage
        for status in statuses:
            if status.attempt in self._running:
                self._running[status.attempt] = status

    def on_ended(self, report: AttemptReport) -> None:
        """An attempt ended; a second report of the same attempt is ignored."""
        if self._running.pop(report.attempt, None) is not None:
            self._finished.append(report)

    def on_fetch_failed(self, failure: FetchFailure) -> None:
        """A reduce here could not fetch a map's output."""
        self._fetch_failures.append(failure)
