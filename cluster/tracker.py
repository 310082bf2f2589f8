"""The state machine of a TaskTracker, without I/O: reports for the next heartbeat, and actions from replies.

`cluster.tasktracker` drives it in live runs, `scheduler.simulate.heartbeats` in virtual time, and tests drive
it directly. These drivers carry its heartbeats to the JobTracker and its actions to the node.
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
"""Number of consecutive heartbeats in which a node must omit an attempt until it counts as not running. A launch
that is on its way to the node may be missing once."""


class Tracker:
    """The state of a node across its incarnations, as reported to the JobTracker.

    `unanswered` is the heartbeat without a reply. It stays the same until the reply arrives, so that the
    JobTracker recognizes a resend by its sequence number. Attempts that end in the meantime wait in
    `finished` for the next heartbeat. `running` holds the launched attempts that have not ended, and `unseen`
    counts how often the node's recent lists omitted an attempt. `jobs` are the jobs that may have map outputs
    on the node. `disk_full` keeps its value when a new incarnation begins.
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
        """Start an incarnation that the JobTracker does not know yet.

        Nothing runs and there is nothing to report.
        """
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
        """Return whether a report of an ended attempt or a failed fetch waits for the next heartbeat."""
        return bool(self.finished or self.fetch_failures)

    def heartbeat(self) -> Heartbeat:
        """Return the next heartbeat, or the same heartbeat again while its reply is missing."""
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

        After the action Reregister, the driver must stop the attempts in `running` on the node and forget
        `jobs`, whose outputs are lost, and then call `begin_life`.
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

        An attempt that the node omits `UNSEEN_LIMIT` times in a row does not exist there: its launch or the
        report of its end was lost. The attempt is removed, so that the JobTracker gives it up.
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
        """Count how often in a row the node omitted each attempt, and remove attempts omitted too often.

        `seen` are the attempts in the node's list.
        """
        missing = {
            attempt: self.unseen.get(attempt, 0) + 1 for attempt in self.running if attempt not in seen
        }
        self.unseen = {attempt: count for attempt, count in missing.items() if count < UNSEEN_LIMIT}
        for attempt in missing.keys() - self.unseen.keys():
            del self.running[attempt]

    def on_ended(self, report: AttemptReport) -> bool:
        """Queue an attempt's report for the next heartbeat. Return False if the attempt is not running."""
        if self.running.pop(report.attempt, None) is None:
            return False
        self.finished.append(report)
        return True

    def on_fetch_failed(self, failure: FetchFailure) -> None:
        """Queue the report that a reduce on this node could not fetch a map's output."""
        self.fetch_failures.append(failure)
