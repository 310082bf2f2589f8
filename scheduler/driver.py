"""The JobTracker without its wires: the core, the journal in front of it, and the plan of jobs.

It is pure. `scheduler.jobtracker` drives it with sockets and the wall clock, `scheduler.simulate` with the event
queue in virtual time, and the tests' world by hand. A core is deterministic, so a driver that replays its journal
knows what the one that crashed knew.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import Any, Protocol

from schedbed.cluster.messages import Heartbeat, Launch, Reply
from schedbed.scheduler.assignment import Assignment, assign
from schedbed.scheduler.core.core import Core
from schedbed.scheduler.core.ledger import Ledger
from schedbed.scheduler.core.records import Effect, NodeLost, Sink
from schedbed.scheduler.core.settings import CoreConfig
from schedbed.scheduler.policies.explained import report_of
from schedbed.scheduler.policy import Policy
from schedbed.tasks.specs import BlockRange, JobSpec, NodeId, Split, id_key

Event = tuple[float, str, tuple[Any, ...]]
"""The time, the kind (a key of `Driver.kinds`, or ANSWERED) and the arguments of what has happened."""
ANSWERED = "answered"
"""Follows an event in the journal, with what a user's policy has answered to the event."""

Serve = Callable[[Core, float, Heartbeat], Reply]


class EventLog(Protocol):
    """A journal: the events in the order in which they were applied."""

    def append(self, now_s: float, kind: str, *arguments: Any) -> None:
        """Keep one event, before it is applied."""
        ...

    def events(self) -> Iterable[Event]:
        """Return all events, oldest first."""
        ...


class KeptAnswers(Protocol):
    """What a user's policy answers, as `scheduler.guard.answers` keeps it; a policy has it by `keep_answers`."""

    difference: str

    def take(self) -> Any:
        """Return the answers since the last call; None when nothing was asked."""
        ...

    def replay(self, replies: Any) -> None:
        """Give these answers to the coming event."""
        ...


class EventList:
    """A journal in memory, for JobTrackers that crash in virtual time only."""

    def __init__(self) -> None:
        self._events: list[Event] = []

    def append(self, now_s: float, kind: str, *arguments: Any) -> None:
        """Keep one event."""
        self._events.append((now_s, kind, arguments))

    def events(self) -> Iterator[Event]:
        """Return all events, oldest first."""
        return iter(self._events)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All that a run will submit: jobs by submit time, and the blocks of every input file."""

    jobs: tuple[JobSpec, ...]
    files: Mapping[str, tuple[BlockRange, ...]]


class Driver:
    """The core with all that stands around it, but for clocks, sockets and disks.

    `make_policy` gives a fresh policy, so that a replay starts from nothing. Without a journal nothing can be
    replayed. `serve` is for a caller that does more with a heartbeat than `Core.heartbeat`. `jobs` are all jobs
    that were ever planned or submitted, `waiting` those whose time has not come, by submit time.
    """

    def __init__(
        self,
        config: CoreConfig,
        make_policy: Callable[[], Policy],
        sink: Sink,
        *,
        seed: int = 0,
        journal: EventLog | None = None,
        serve: Serve | None = None,
    ) -> None:
        self._config = config
        self._make_policy = make_policy
        self._sink = sink
        self._seed = seed
        self._journal = journal
        self._serve = serve
        self.policy: Policy
        self.core: Core
        self._start_over()

    def _start_over(self) -> None:
        """Forget everything but the journal."""
        policy = self.policy = self._make_policy()
        keep = getattr(policy, "keep_answers", None)
        self._answers: KeptAnswers | None = None if keep is None or self._journal is None else keep()
        core = self.core = Core(self._config, self.policy, self._sink, seed=self._seed)
        self.jobs: dict[str, JobSpec] = {}
        self.waiting: deque[JobSpec] = deque()
        self.files: dict[str, tuple[BlockRange, ...]] = {}
        self._file_of: dict[str, str] = {}  # the input file by block
        self.kinds: dict[str, Callable[..., Any]] = {
            "plan": self._plan,
            "add": self._add,
            "submit": self._submit,
            "kill_job": core.kill_job,
            "register": core.register,
            "heartbeat": core.heartbeat if self._serve is None else partial(self._serve, core),
            "node_lost": core.node_lost,
            "tick": core.tick,
            "replicas_changed": self._move_block,
            "committed": core.committed,
            "commit_failed": core.commit_failed,
        }

    @property
    def books(self) -> Ledger:
        """The present core's books, to look at."""
        return self.core.ledger

    # ---------------------------------------------------------------- events

    def do(self, now_s: float, kind: str, *arguments: Any) -> Any:
        """Write an event into the journal, then apply it; return the answer."""
        if self._journal is None:
            return self.kinds[kind](now_s, *arguments)
        self._journal.append(now_s, kind, *arguments)
        answer = self.kinds[kind](now_s, *arguments)
        self._keep_answers()
        return answer

    def _keep_answers(self) -> None:
        """Write what a user's policy has answered to the last event, before anybody hears of the answers."""
        replies = None if self._answers is None else self._answers.take()
        if replies is not None and self._journal is not None:
            self._journal.append(self.books.now_s, ANSWERED, replies)

    def report(self) -> dict[str, Any]:
        """Return the policy's own report, and under `replay` what it answered otherwise after a restart."""
        difference = "" if self._answers is None else self._answers.difference
        return {**report_of(self.policy), **({"replay": difference} if difference else {})}

    def recover(self) -> list[Effect]:
        """Replay the journal from nothing; return the effects that may not have been carried out, oldest first.

        A commit stays among them until its end is in the journal, or the attempt's output is discarded after all.
        """
        assert self._journal is not None, "only a journal can be replayed"
        self._start_over()
        effects: dict[object, Effect] = {}
        for (now_s, kind, arguments), replies in _with_replies(self._journal.events()):
            if self._answers is not None:
                self._answers.replay(replies)
            self.kinds[kind](now_s, *arguments)
            if kind == "committed":
                effects.pop(arguments[0], None)
            for effect in self.core.take_effects():
                effects[getattr(effect, "attempt", effect)] = effect
        self._keep_answers()
        nodes = self.books.nodes
        # A node that is back holds blocks again.
        return [e for e in effects.values() if not (isinstance(e, NodeLost) and nodes[e.node].alive)]

    # ------------------------------------------------------------------ jobs

    @property
    def next_due_s(self) -> float:
        """Return when the next job is to be submitted; infinity when none waits."""
        return self.waiting[0].submit_s if self.waiting else inf

    def submit_due(self, now_s: float) -> int:
        """Submit the jobs whose time has come, and return their number."""
        count = 0
        while self.waiting and self.waiting[0].submit_s <= now_s:
            self.do(now_s, "submit", self.waiting[0])
            count += 1
        return count

    def kill(self, now_s: float, jobs: Iterable[str] | None, reason: str) -> None:
        """End these jobs, or all (None), also those that wait for their time; others are left as they are."""
        names = None if jobs is None else list(jobs)
        for job in [job for job in self.waiting if names is None or job.job in names]:
            self.do(now_s, "submit", job)
        for name in self.core.active_jobs() if names is None else names:
            self.do(now_s, "kill_job", name, reason)

    def all_ended(self) -> bool:
        """Tell whether no job waits for its time, and none runs."""
        return not self.waiting and self.core.all_ended()

    def _plan(self, now_s: float, plan: Plan) -> None:
        """Take the run's plan, in which times count from the run's start."""
        self.jobs = {job.job: job for job in plan.jobs}
        self._wait(plan.jobs, plan.files)

    def _add(self, now_s: float, plan: Plan) -> None:
        """Take more jobs while the run goes on, their times counted from now; jobs that are known stay as they are."""
        new: list[JobSpec] = []
        for job in plan.jobs:
            if job.job not in self.jobs:
                due_s = None if job.deadline_s is None else now_s + job.deadline_s
                job = replace(job, submit_s=now_s + job.submit_s, deadline_s=due_s)
                self.jobs[job.job] = job
                new.append(job)
        self._wait(new, plan.files)

    def _wait(self, jobs: Iterable[JobSpec], files: Mapping[str, tuple[BlockRange, ...]]) -> None:
        self.files |= files
        self._file_of |= {block.block: name for name, blocks in files.items() for block in blocks}
        self.waiting = deque(sorted((*self.waiting, *jobs), key=lambda job: (job.submit_s, *id_key(job.job))))

    def _submit(self, now_s: float, job: JobSpec) -> None:
        """Submit a job, which may have got other times than it was planned with, or none before."""
        place = next((place for place, known in enumerate(self.waiting) if known.job == job.job), None)
        if place is not None:
            del self.waiting[place]
        self.core.submit(now_s, job)
        self.jobs[job.job] = job

    def _move_block(self, now_s: float, block: str, nodes: tuple[NodeId, ...]) -> None:
        """Let unstarted maps follow their block, and later attempts be told of the new replicas."""
        name = self._file_of.get(block)
        if name is not None:
            self.files[name] = tuple(
                replace(known, nodes=nodes) if known.block == block else known for known in self.files[name]
            )
        self.core.replicas_changed(now_s, block, nodes)

    # -------------------------------------------------------------- attempts

    def assignment(self, launch: Launch) -> Assignment:
        """Return what the launched attempt is to do."""
        return assign(self.jobs[launch.job], launch)

    def blocks_of(self, split: Split | None) -> tuple[BlockRange, ...]:
        """Return the blocks of a split's file with their present replicas; () for a split without a file."""
        return () if split is None or split.file is None else self.files[split.file]


def _with_replies(events: Iterable[Event]) -> Iterator[tuple[Event, Any]]:
    """Yield each event with what the policy answered to the event, None where it was asked nothing or not heard."""
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
