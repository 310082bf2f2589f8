"""The TaskTracker as a state machine without I/O: the reports it owes and the orders it got.

`cluster.tasktracker` drives it live, `scheduler.simulate.heartbeats` in virtual time, and the tests' world by hand.
They carry its heartbeats to the JobTracker and its actions to the node.
"""

from __future__ import annotations

from collections.abc import Collection

from schedbed.cluster.messages import (
    NO_USAGE,
    Action,
    AttemptReport,
    AttemptStatus,
    FetchFailure,
    ForgetJob,
    Heartbeat,
    Launch,
    Reply,
    Reregister,
    Usage,
)
from schedbed.tasks.specs import NodeId

UNSEEN_LIMIT = 3
"""Heartbeats in a row in which a node says that it does not run an attempt, until it is believed: a launch that is on
its way to the node may be missing once."""


class Tracker:
    """A node with all its incarnations, as known to the JobTracker.

    `unanswered` is the heartbeat without a reply. It stays the same until the reply comes, so that a resend is
    recognized by its sequence; attempts that end meanwhile wait in `finished` for the next heartbeat. `running` holds
    the launched attempts that have not ended, `unseen` those that the node left out recently. `jobs` may have map
    outputs here. `disk_full` survives an incarnation.
    """

    __slots__ = (
        "disk_full",
        "fetch_failures",
        "finished",
        "incarnation",
        "jobs",
        "node",
        "running",
        "sequence",
        "unanswered",
        "unseen",
        "usage",
    )

    def __init__(self, node: NodeId, incarnation: int) -> None:
        self.node = node
        self.disk_full = False
        self.begin_life(incarnation)

    def begin_life(self, incarnation: int) -> None:
        """Start an incarnation that the JobTracker does not know: nothing runs and there is nothing to report."""
        self.incarnation = incarnation
        self.sequence = 0
        self.unanswered: Heartbeat | None = None
        self.running: dict[str, AttemptStatus] = {}
        self.unseen: dict[str, int] = {}
        self.jobs: dict[str, None] = {}
        self.finished: list[AttemptReport] = []
        self.fetch_failures: list[FetchFailure] = []
        self.usage: Usage = NO_USAGE

    @property
    def has_news(self) -> bool:
        """Return whether an ended attempt or a failed fetch waits for a heartbeat."""
        return bool(self.finished or self.fetch_failures)

    def heartbeat(self) -> Heartbeat:
        """Return the next heartbeat, or the same one again while its reply is missing."""
        waiting = self.unanswered
        if waiting is None:
            self.sequence += 1
            waiting = self.unanswered = Heartbeat(
                self.node,
                self.incarnation,
                self.sequence,
                tuple(self.running.values()),
                tuple(self.finished),
                tuple(self.fetch_failures),
                self.usage,
                self.disk_full,
            )
            if self.finished:
                self.finished = []
            if self.fetch_failures:
                self.fetch_failures = []
        return waiting

    def on_reply(self, reply: Reply) -> tuple[Action, ...]:
        """Process a reply and return the actions to carry out; none for a late reply to an old heartbeat.

        After Reregister the driver must stop what is `running` on the node and forget `jobs`, whose outputs are lost,
        and then call `begin_life`.
        """
        actions = reply.actions
        if len(actions) == 1 and isinstance(actions[0], Reregister):
            self.unanswered = None
            return actions
        if self.unanswered is None or reply.sequence != self.unanswered.sequence:
            return ()
        self.unanswered = None
        for action in actions:
            if isinstance(action, Launch):
                self.running[action.attempt] = AttemptStatus(action.attempt, 0.0, "start")
                self.jobs[action.job] = None
            elif isinstance(action, ForgetJob):
                self.jobs.pop(action.job, None)
        return actions

    def on_running(self, statuses: Collection[AttemptStatus]) -> None:
        """Update the running attempts from the node's list. Attempts that were not launched here are ignored.

        An attempt that the node leaves out `UNSEEN_LIMIT` times in a row does not exist there: its launch or the
        report of its end was lost. It is removed, so that the JobTracker gives it up.
        """
        running, seen = self.running, 0
        for status in statuses:
            if status.attempt in running:
                running[status.attempt] = status
                seen += 1
        if seen < len(running):
            self._miss({status.attempt for status in statuses})
        elif self.unseen:
            self.unseen = {}

    def _miss(self, seen: set[str]) -> None:
        """Count how often in a row each attempt was left out, and remove those that do not exist."""
        missing = {
            attempt: self.unseen.get(attempt, 0) + 1 for attempt in self.running if attempt not in seen
        }
        self.unseen = {attempt: count for attempt, count in missing.items() if count < UNSEEN_LIMIT}
        for attempt in missing.keys() - self.unseen.keys():
            del self.running[attempt]

    def on_ended(self, report: AttemptReport) -> bool:
        """Queue an attempt's report. Return False for an attempt that does not run here (a second report)."""
        if self.running.pop(report.attempt, None) is None:
            return False
        self.finished.append(report)
        return True

    def on_fetch_failed(self, failure: FetchFailure) -> None:
        """Queue the report that a reduce here could not fetch a map's output."""
        self.fetch_failures.append(failure)
