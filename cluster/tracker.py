"""The TaskTracker as a value machine: the reports it owes and the orders it was given, without any I/O.

One class for all: `cluster.tasktracker` drives it live, `scheduler.simulate.heartbeats` in virtual time, and
the tests' world by hand. They carry its heartbeats to the JobTracker and its actions to the node.
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
    """One node, one life (incarnation) after the other, as the JobTracker is told of it.

    `unanswered` is the heartbeat whose reply is missing. It stays the same until the reply has come, so that a resend
    is recognized by its sequence; attempts that end in the meantime wait in `finished` for the next heartbeat.
    `running` holds the attempts that were launched here and have not ended, `unseen` those of them that the node has
    left out lately. `jobs` are those that may have left map outputs here. `disk_full` outlives a life.
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
        """Start over as a node that the JobTracker has never met: nothing runs and nothing is to be reported."""
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
        """Tell whether an attempt or a fetch has failed or ended that no heartbeat has carried yet."""
        return bool(self.finished or self.fetch_failures)

    def heartbeat(self) -> Heartbeat:
        """Return the next heartbeat, or again the one whose reply is missing."""
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
        """Take the JobTracker's answer and return the actions to carry out; a late answer to an old heartbeat has none.

        After Reregister the driver must have the node stop what is `running` and forget `jobs`, whose outputs count as
        lost, and then call `begin_life`.
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
        """Note all that the node says is running; attempts that were not launched here are ignored.

        An attempt that was launched here and that the node leaves out `UNSEEN_LIMIT` times in a row is not there: its
        launch or the report of its end was lost on the way. It is listed no more, so that the JobTracker gives it up.
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
        """Count how often in a row each attempt was left out, and drop those that are not there."""
        missing = {
            attempt: self.unseen.get(attempt, 0) + 1 for attempt in self.running if attempt not in seen
        }
        self.unseen = {attempt: count for attempt, count in missing.items() if count < UNSEEN_LIMIT}
        for attempt in missing.keys() - self.unseen.keys():
            del self.running[attempt]

    def on_ended(self, report: AttemptReport) -> bool:
        """Queue an attempt's report; return False for an attempt that does not run here (a second report)."""
        if self.running.pop(report.attempt, None) is None:
            return False
        self.finished.append(report)
        return True

    def on_fetch_failed(self, failure: FetchFailure) -> None:
        """Queue the news that a reduce here could not fetch a map's output."""
        self.fetch_failures.append(failure)
