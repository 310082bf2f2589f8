"""The state machine of a TaskTracker, without I/O: it builds heartbeats and turns replies into actions.

Callers, live or in virtual time, send the heartbeats and carry out the actions.
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


# Heartbeats, sequences and incarnations
#
# A heartbeat does two things at once: it reports what ended, and it asks for work. If a heartbeat or its
# reply gets lost, neither side knows which of the two was lost. Sending a new heartbeat could report an end
# twice, and answering it with new launches could start the tasks of the lost reply a second time. Two
# numbers prevent this:
#
# - The sequence numbers a node's heartbeats. Until the reply arrives, the tracker sends the same heartbeat
#   again, with the same content. The JobTracker answers a sequence that it has seen with the reply that it
#   gave at that time. A reply is therefore carried out once, however often each direction of the connection
#   fails.
# - The incarnation numbers the lives of a node. If a node was silent for too long, the JobTracker counts
#   its attempts as lost and runs their tasks elsewhere. If the node then turns out to be alive, its
#   attempts must not count a second time. The JobTracker answers a heartbeat of an incarnation that it does
#   not expect only with `Reregister`: the node kills what runs and begins a new life, in which
#   sequences start again.
#
# A report of an end and a request for a launch may still cross. For this reason the tracker counts an
# attempt that the node does not list as gone only after `UNSEEN_LIMIT` reports.


class Tracker:
    """The state of a node, as reported to the JobTracker, across its incarnations.

    `unanswered` is the last heartbeat until its reply, unchanged so that its sequence number marks a resend;
    attempts that end meanwhile wait in `finished`. `unseen` counts the consecutive reports of the node
    without a `running` attempt. `jobs` may have map outputs here. `disk_full` outlasts an incarnation.
    """

    __slots__ = (
        "_listed",
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
        """Start a new incarnation, without attempts and reports, which the JobTracker does not know yet."""
        self.incarnation = incarnation
        self.sequence = 0
        self.unanswered: Heartbeat | None = None
        self.running: dict[str, AttemptStatus] = {}
        # The statuses of the last heartbeat, or None if `running` has changed since then.
        self._listed: tuple[AttemptStatus, ...] | None = None
        self.unseen: dict[str, int] = {}
        self.jobs: dict[str, None] = {}
        self.finished: list[AttemptReport] = []
        self.fetch_failures: list[FetchFailure] = []
        self.usage: Usage = NO_USAGE

    @property
    def has_news(self) -> bool:
        """Return whether a report of an ended attempt or a failed fetch is waiting."""
        return bool(self.finished or self.fetch_failures)

    def heartbeat(self) -> Heartbeat:
        """Return the heartbeat to send: the last heartbeat again if it has no reply yet, else a new one."""
        waiting = self.unanswered
        if waiting is None:
            self.sequence += 1
            listed = self._listed
            if listed is None:
                listed = self._listed = tuple(self.running.values())
            waiting = self.unanswered = Heartbeat(
                self.node,
                self.incarnation,
                self.sequence,
                listed,
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
        """Return the reply's actions; a late reply to an old heartbeat has none.

        After Reregister, the caller must stop the attempts in `running`, delete the map outputs of `jobs`,
        and call `begin_life`.
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
                self._listed = None
                self.jobs[action.job] = None
            elif isinstance(action, ForgetJob):
                self.jobs.pop(action.job, None)
        return actions

    def on_running(self, statuses: Collection[AttemptStatus], on_the_way: Collection[str] = ()) -> None:
        """Update `running` from the node's own report, made before the launches `on_the_way` reached it.

        Any other attempt missing in `UNSEEN_LIMIT` consecutive reports is removed: its launch or the report of its
        end was lost, and the JobTracker must not wait for one.
        """
        running, seen = self.running, 0
        self._listed = None
        for status in statuses:
            if status.attempt in running:
                running[status.attempt] = status
                seen += 1
        if seen < len(running):
            self._miss({status.attempt for status in statuses}.union(on_the_way))
        elif self.unseen:
            self.unseen = {}

    def _miss(self, seen: set[str]) -> None:
        """Count consecutive reports without each attempt, and remove those with `UNSEEN_LIMIT`."""
        missing = {
            attempt: self.unseen.get(attempt, 0) + 1 for attempt in self.running if attempt not in seen
        }
        self.unseen = {attempt: count for attempt, count in missing.items() if count < UNSEEN_LIMIT}
        for attempt in missing.keys() - self.unseen.keys():
            del self.running[attempt]

    def on_ended(self, report: AttemptReport) -> bool:
        """Queue an attempt's report. Return False for one that is not in `running`."""
        if self.running.pop(report.attempt, None) is None:
            return False
        self._listed = None
        self.finished.append(report)
        return True

    def on_fetch_failed(self, failure: FetchFailure) -> None:
        self.fetch_failures.append(failure)
