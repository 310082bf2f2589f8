"""A random test of the TaskTracker alone: replies are late, repeated or reordered, and launches are lost."""

from __future__ import annotations

from collections import Counter
from typing import Any

from schedbed.cluster.messages import (
    NO_USAGE,
    AttemptReport,
    AttemptStatus,
    FetchFailure,
    ForgetJob,
    KillAttempt,
    Launch,
    Reply,
    Reregister,
    Usage,
)
from schedbed.cluster.tracker import Tracker
from schedbed.tasks.chance import chance
from schedbed.tasks.specs import TaskKind
from tests.search.violation import hold

OWES = "a tracker tells what it owes, once"
TIMES = 3  # Lists in a row without an attempt after which the attempt counts as gone.


class TrackerStory:
    """Gives random replies and reports to a tracker, and compares it with a model.

    The model has the running attempts and the reports not sent yet.
    """

    def __init__(self, seed: int, steps: int) -> None:
        self._luck = chance(seed, "tracker alone")
        self._steps = steps
        self._tracker: Any = Tracker("n0", 5)
        self._attempts = 0
        self._disk_full = False
        self._begin(5)

    def _begin(self, incarnation: int) -> None:
        self._incarnation, self._sequence = incarnation, 0
        self._running: dict[str, AttemptStatus] = {}
        self._left_out: Counter[str] = Counter()
        self._jobs: dict[str, None] = {}
        self._reports: list[AttemptReport] = []
        self._failures: list[FetchFailure] = []
        self._usage: Usage = NO_USAGE
        self._waiting: Any = None  # The heartbeat without reply.

    def run(self) -> None:
        """Run random steps with checks. Raises Violation if the tracker differs from the model."""
        steps = (
            self._send_heartbeat,
            self._send_heartbeat,
            self._reply,
            self._reply,
            self._run,
            self._end,
            self._fail,
        )
        self._check()
        for _ in range(self._steps):
            self._luck.choice(steps)()
            if self._luck.random() < 0.1:
                self._disk_full = self._tracker.disk_full = not self._disk_full
                self._usage = self._tracker.usage = Usage(cpu_util=0.5, memory_bytes=self._attempts)
            self._check()

    def _send_heartbeat(self) -> None:
        heartbeat = self._tracker.heartbeat()
        if self._waiting is not None:
            hold(heartbeat is self._waiting, "a resend is the same heartbeat", heartbeat)
            return
        self._sequence += 1
        hold(
            (heartbeat.node, heartbeat.incarnation, heartbeat.sequence)
            == ("n0", self._incarnation, self._sequence),
            OWES,
            heartbeat,
        )
        hold(list(heartbeat.running) == list(self._running.values()), OWES, f"{heartbeat.running}")
        hold(
            list(heartbeat.finished) == self._reports,
            OWES,
            f"{heartbeat.finished} instead of {self._reports}",
        )
        hold(list(heartbeat.fetch_failures) == self._failures, OWES, f"{heartbeat.fetch_failures}")
        hold((heartbeat.usage, heartbeat.disk_full) == (self._usage, self._disk_full), OWES, heartbeat)
        self._reports, self._failures, self._waiting = [], [], heartbeat

    def _reply(self) -> None:
        """Give the tracker a reply to its last heartbeat, to an older one, or the order to register again."""
        luck = self._luck
        sequence = self._sequence - (luck.random() < 0.2)
        if luck.random() < 0.08:
            reply: Any = Reply(sequence, (Reregister(),))
            hold(self._tracker.on_reply(reply) == reply.actions, "orders are passed on", reply)
            self._waiting = None
            if luck.random() < 0.8:
                self._tracker.begin_life(self._incarnation + 1)
                self._begin(self._incarnation + 1)
            return
        actions: list[Any] = []
        for _ in range(luck.choice((0, 0, 1, 1, 2, 3))):
            self._attempts += 1
            job = f"job_{luck.randrange(4)}"
            attempt = f"{job}_m_{self._attempts:06d}_0"
            launch = Launch(attempt, job, TaskKind.MAP, self._attempts, None)
            others = (KillAttempt(attempt=attempt, reason="why not"), ForgetJob(job=job))
            actions.append(launch if luck.random() < 0.6 else luck.choice(others))
        reply = Reply(sequence, tuple(actions))
        answered = self._waiting is not None and sequence == self._sequence
        told = self._tracker.on_reply(reply)
        hold(told == (reply.actions if answered else ()), "a late answer has no orders", f"{told} of {reply}")
        if answered:
            self._waiting = None
            for action in actions:
                if isinstance(action, Launch):
                    self._running[action.attempt] = AttemptStatus(action.attempt, 0.0, "start")
                    self._jobs[action.job] = None
                elif isinstance(action, ForgetJob):
                    self._jobs.pop(action.job, None)

    def _run(self) -> None:
        """Give the tracker the node's list of running attempts, with omissions and an unknown attempt."""
        luck = self._luck
        share = luck.choice((1.0, 1.0, 0.6, 0.0))
        seen = [name for name in self._running if luck.random() < share]
        strays = ["job_9_m_000000_0"] * (luck.random() < 0.2)
        statuses = [AttemptStatus(name, luck.random(), "map") for name in (*seen, *strays)]
        self._tracker.on_running(statuses)
        for status in statuses:
            if status.attempt in self._running:
                self._running[status.attempt] = status
        for name in list(self._running):
            self._left_out[name] = 0 if name in seen else self._left_out[name] + 1
            if self._left_out[name] == TIMES:
                del self._running[name]

    def _end(self) -> None:
        """Report the end of an attempt, sometimes twice or of an unknown attempt."""
        luck = self._luck
        name = luck.choice([*self._running, "job_9_m_000000_0"])
        state = luck.choice(("succeeded", "failed", "killed"))
        report = AttemptReport(name, state, 0.0, 1.0)
        for _ in range(luck.choice((1, 1, 2))):
            known = self._running.pop(name, None) is not None
            hold(self._tracker.on_ended(report) is known, "a second report is none", f"{report}")
            if known:
                self._reports.append(report)
                self._left_out.pop(name, None)

    def _fail(self) -> None:
        failure = FetchFailure(map_attempt="job_0_m_000001_0", reduce_attempt="job_0_r_000000_0")
        self._tracker.on_fetch_failed(failure)
        self._failures.append(failure)

    def _check(self) -> None:
        tracker = self._tracker
        seen = f"{tracker.running} instead of {self._running}"
        hold(list(tracker.running.items()) == list(self._running.items()), "what runs is listed", seen)
        hold(list(tracker.jobs) == list(self._jobs), "jobs with outputs are known", f"{tracker.jobs}")
        news = bool(self._reports or self._failures)
        hold(tracker.has_news is news, "news are announced", f"{tracker.has_news}")
        left_out = {name: times for name, times in self._left_out.items() if times and name in self._running}
        unseen = {name: times for name, times in tracker.unseen.items() if name in self._running}
        hold(unseen == left_out, "what runs is listed", f"{tracker.unseen} instead of {left_out}")
