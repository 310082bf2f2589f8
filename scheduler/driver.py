"""The JobTracker without network, clock and disk: the core, its journal, and jobs that wait for submission.

`scheduler.jobtracker` drives it with sockets and the wall clock, `scheduler.simulate` in virtual time. The
core is deterministic: the last snapshot and a replay of later events reach the state of a driver that
crashed.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from operator import attrgetter
from typing import Any

from schedbed.cluster.messages import Heartbeat, Launch, Reply
from schedbed.scheduler.assignment import Assignment, assign
from schedbed.scheduler.core.core import Core
from schedbed.scheduler.core.ledger import Ledger
from schedbed.scheduler.core.rows import Commit, Effect, JobEnded, NodeLost, Sink
from schedbed.scheduler.core.settings import CoreConfig
from schedbed.scheduler.core.snapshots import freeze, thaw
from schedbed.scheduler.event_log import ANSWERED, Event, EventLog, with_replies
from schedbed.scheduler.hooks import Limits, hook
from schedbed.scheduler.policies.explained import report_of
from schedbed.scheduler.policy import HostedPolicy, KeptAnswers, Policy, PolicyFailed
from schedbed.tasks.specs import BlockRange, JobSpec, NodeId, Split, id_key

Serve = Callable[[Core, float, Heartbeat], Reply]


@dataclass(frozen=True, slots=True)
class PolicyChange:
    """New values of policies' parameters from `at_s` on, by name as in a scenario file (`Hooks.change`)."""

    at_s: float
    given: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The jobs of a run, sorted by submit time, the blocks of each input file, and changes of the policy."""

    jobs: tuple[JobSpec, ...]
    files: Mapping[str, tuple[BlockRange, ...]]
    changes: tuple[PolicyChange, ...] = ()


# Journal, replay and snapshots
#
# The core is deterministic: the same events with the same times lead to the same state. It is therefore
# enough to write down the events, each one before the core applies it, and to apply them again after a
# crash. Three things are not events of that kind:
#
# - What the core causes outside, such as a commit. An effect is kept until its end is itself an event
#   (`carried_out`). A recovered driver returns the effects without an end again, and the receiver must
#   tolerate a repetition.
# - What a user's policy answered. Its code may not be deterministic, so the answers are part of the
#   journal, written before nodes receive them. A replay takes the answers from the journal and only reports
#   a difference.
# - Time. A long run has too many events to apply all again. A snapshot of the whole state replaces the
#   events before it. A snapshot is read back once before it is trusted; if a policy's state cannot be
#   written, the journal keeps all events instead, and the run's report says so.


class Driver:
    """The core with its journal and the jobs that wait for submission, without clocks, sockets and disks.

    `make_policy` returns a new policy each time, so that a replay starts from an initial policy. `policy`, if
    given, is used as the first policy. `sink` receives the table rows. A driver without a `journal` cannot
    recover. `serve`, if given, is called for each heartbeat instead of `Core.heartbeat`.

    The attribute `jobs` contains the jobs that have not ended. `waiting` contains the jobs that are not
    submitted yet, sorted by submit time. `held` contains, by the id of a job that has not ended, the jobs that
    wait for its end (`JobSpec.after`); they enter `waiting` `end_delay_s` after it. `submit_times_s` contains
    the submit times of all jobs. A sink whose state is not in its attributes must have the methods `keep_state` and
    `restore_state`.
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
        policy: Policy | None = None,
        end_delay_s: float = 0.0,
    ) -> None:
        self._config = config
        self._end_delay_s = end_delay_s
        self._make_policy = make_policy
        self._sink = sink
        self._seed = seed
        self._journal = journal
        self._serve = serve
        self._is_proven = False  # A snapshot of this driver has been read back.
        self._keeps_all = ""  # The reason why no more snapshots are written.
        self.policy: Policy
        self.core: Core
        self._start_over(policy)

    def _start_over(self, policy: Policy | None = None) -> None:
        """Make a new core with `policy` or a new one, and forget all jobs but not the journal."""
        policy = self.policy = self._make_policy() if policy is None else policy
        self._answers: KeptAnswers | None = None
        if isinstance(policy, HostedPolicy) and self._journal is not None:
            self._answers = policy.keep_answers()
        core = self.core = Core(self._config, self.policy, self._sink, seed=self._seed)
        self.jobs: dict[str, JobSpec] = {}
        self.submit_times_s: dict[str, float] = {}
        self.waiting: deque[JobSpec] = deque()
        self.held: dict[str, list[JobSpec]] = {}
        self.changes: deque[PolicyChange] = deque()
        self.files: dict[str, tuple[BlockRange, ...]] = {}
        self._file_of: dict[str, str] = {}  # Input file by block.
        self._readers: dict[str, int] = {}  # Number of jobs that have not ended, by input file.
        # Effects that may not have been carried out, by attempt if there is one.
        self._open: dict[object, Effect] = {}
        self.kinds: dict[str, Callable[..., Any]] = {
            "plan": self._plan,
            "add": self._add,
            "submit": self._submit,
            "change": self._change,
            "kill_job": core.kill_job,
            "ask": core.ask,
            "release": core.release,
            "start_inside": core.start_inside,
            "stop": core.stop,
            "register": core.register,
            "heartbeat": core.heartbeat if self._serve is None else partial(self._serve, core),
            "node_lost": core.node_lost,
            "tick": core.tick,
            "recovered": core.recovered,
            "replicas_changed": self._move_block,
            "committed": self._committed,
            "commit_failed": core.commit_failed,
        }

    @property
    def ledger(self) -> Ledger:
        """Return the current core's state, for reading."""
        return self.core.ledger

    # ---------------------------------------------------------------- events

    def do(self, now_s: float, kind: str, *arguments: Any) -> Any:
        """Journal and apply an event, return its result, and write a snapshot if one is due.

        `kind` is a key of `kinds`, and `arguments` are those of the method there.
        """
        if self._journal is None:
            return self.kinds[kind](now_s, *arguments)
        self._journal.append(now_s, kind, *arguments)
        answer = self.kinds[kind](now_s, *arguments)
        self._keep_answers()
        if not self._keeps_all and self._journal.is_due():
            self._keep_snapshot(self._journal)
        return answer

    def _keep_answers(self) -> None:
        """Journal the policy's answers before nodes receive them."""
        replies = None if self._answers is None else self._answers.take()
        if replies is not None and self._journal is not None:
            self._journal.append(self.ledger.now_s, ANSWERED, replies)

    def report(self) -> dict[str, Any]:
        """Return the policy's report, with `replay` (an answer differed), `journal` (no more snapshots), `limits`.

        The limits on a node are those in force, `none` without any, unless they are slots only.
        """
        difference = "" if self._answers is None else self._answers.difference
        limits = self.ledger.limits
        held = [name for name, holds in limits._asdict().items() if holds]
        told = [] if limits == Limits() else held or ["none"]
        notes = {"replay": difference, "journal": self._keeps_all, "limits": told}
        return {**report_of(self.policy), **{name: note for name, note in notes.items() if note}}

    def take_effects(self) -> list[Effect]:
        """Return the effects issued, in order, which a recovery returns again until they are reported.

        The caller reports a commit by `committed` or `commit_failed`, any other by `carried_out`.
        """
        effects = self.core.take_effects()
        for effect in effects:
            if isinstance(effect, JobEnded):
                self._forget(effect.job)
                self._release(effect.job)
            if self._journal is not None:
                self._open[_key(effect)] = effect
        return effects

    def carried_out(self, effect: Effect) -> None:
        """Mark an effect as done for a recovery."""
        if self._open.get(_key(effect)) == effect:
            del self._open[_key(effect)]

    # -------------------------------------------------------------- recovery

    def _keep_snapshot(self, journal: EventLog) -> None:
        """Write a snapshot, the first one tested by reading it. Stop if the state cannot be serialized."""
        try:
            snapshot = freeze(self._state())
            if not self._is_proven:
                thaw(snapshot)
                self._is_proven = True
        except PolicyFailed:
            raise
        except Exception as error:  # A policy may hold objects that fail in any way.
            self._keeps_all = f"the JobTracker's journal keeps all events: {error}"
        else:
            journal.keep(snapshot)

    def _state(self) -> dict[str, Any]:
        """Return a snapshot's content: the state of the core, the jobs, the policy and the row receiver."""
        policy, held = self.policy, vars(self)
        is_hosted = isinstance(policy, HostedPolicy)
        rows = getattr(self._sink, "keep_state", None)
        return {
            "core": self.core.state(),
            "jobs": {name: held[name] for name in _JOB_STATE},
            "open": self._open,
            "policy": None if is_hosted else policy,
            "policy_state": policy.keep_state() if is_hosted else None,
            "rows": None if rows is None else rows(),
        }

    def _go_back(self, snapshot: bytes) -> None:
        """Restore the state of the core, the jobs, the policy and the row receiver from a snapshot."""
        state = thaw(snapshot)
        self._start_over(state["policy"])
        self.core.restore(state["core"])
        vars(self).update(state["jobs"])
        self._open = state["open"]
        for part, kept in ((self.policy, state["policy_state"]), (self._sink, state["rows"])):
            if kept is not None:
                restore: Any = part
                restore.restore_state(self.ledger, kept)
        self.take_effects()

    def recover(self, now_s: float) -> list[Effect]:
        """Restore the state, and return the effects that may not have been carried out, oldest first.

        A commit is among them unless the journal has its result or the output was discarded. Live nodes count
        as heard at `now_s`. Raises ValueError if no snapshot is readable.
        """
        assert self._journal is not None, "only a journal can be replayed"
        for snapshot, events in self._journal.beginnings():
            if snapshot is None:
                self._start_over()
            else:
                self._go_back(snapshot)
            self._replay(events)
            break
        else:
            raise ValueError("the JobTracker's snapshots are damaged, so that it cannot go on")
        nodes = self.ledger.nodes
        if nodes:
            self.do(now_s, "recovered")
        for effect in list(self._open.values()):
            if isinstance(effect, NodeLost) and nodes[effect.node].alive:
                self.carried_out(effect)  # A node that registered again holds blocks again.
        return list(self._open.values())

    def _replay(self, events: Iterable[Event]) -> None:
        for (now_s, kind, arguments), replies in with_replies(events):
            if self._answers is not None:
                self._answers.replay(replies)
            self.kinds[kind](now_s, *arguments)
            self.take_effects()
        self._keep_answers()

    # ------------------------------------------------------------------ jobs

    @property
    def next_due_s(self) -> float:
        """Return when the next waiting job or change of the policy is due, or infinity."""
        job_s = self.waiting[0].submit_s if self.waiting else inf
        return min(job_s, self.changes[0].at_s) if self.changes else job_s

    def submit_due(self, now_s: float) -> int:
        """Submit the waiting jobs whose submit time is at or before `now_s`, and return their number.

        Changes of the policy that are due come first.
        """
        self.change_due(now_s)
        count = 0
        while self.waiting and self.waiting[0].submit_s <= now_s:
            self.do(now_s, "submit", self.waiting[0])
            count += 1
        return count

    def change_due(self, now_s: float) -> None:
        """Make the changes of the policy that are due."""
        while self.changes and self.changes[0].at_s <= now_s:
            self.do(now_s, "change", self.changes[0])

    def kill(self, now_s: float, jobs: Iterable[str] | None, reason: str) -> None:
        """Kill the jobs with the given ids, or all jobs if None. Jobs not submitted yet are also killed."""
        names = None if jobs is None else list(jobs)
        unsubmitted = [*self.waiting, *(job for jobs in self.held.values() for job in jobs)]
        for job in [job for job in unsubmitted if names is None or job.job in names]:
            self.do(now_s, "submit", job)
        for name in self.core.active_jobs() if names is None else names:
            self.do(now_s, "kill_job", name, reason)

    def all_ended(self) -> bool:
        return not self.waiting and not self.held and self.core.all_ended()

    def _plan(self, now_s: float, plan: Plan) -> None:
        """Add the run's plan, with times since its start (an event of the journal)."""
        self._wait(plan.jobs, plan.files)
        self._await_changes(plan.changes)

    def _add(self, now_s: float, plan: Plan) -> None:
        """Add jobs during the run, with times from `now_s`. Known jobs are ignored."""
        new: list[JobSpec] = []
        for job in plan.jobs:
            if job.job not in self.submit_times_s:
                due_s = None if job.deadline_s is None else now_s + job.deadline_s
                new.append(replace(job, submit_s=now_s + job.submit_s, deadline_s=due_s))
        self._wait(new, plan.files if new else {})
        self._await_changes(replace(each, at_s=now_s + each.at_s) for each in plan.changes)

    def _await_changes(self, changes: Iterable[PolicyChange]) -> None:
        self.changes = deque(sorted((*self.changes, *changes), key=attrgetter("at_s")))

    def _change(self, now_s: float, change: PolicyChange) -> None:
        """Give the policy new values of its parameters."""
        self.changes.popleft()
        ask = None if isinstance(self.policy, HostedPolicy) else hook(self.policy, "change")
        if ask is not None:
            ask(change.given)

    def _wait(self, jobs: Sequence[JobSpec], files: Mapping[str, tuple[BlockRange, ...]]) -> None:
        self.files |= files
        self._file_of |= {block.block: name for name, blocks in files.items() for block in blocks}
        for job in jobs:
            self._know(job)
        due: list[JobSpec] = []
        for job in jobs:  # Any of them may be the one that another waits for.
            held = self.held.setdefault(job.after, []) if job.after in self.jobs else due
            held.append(job)
        self.waiting = deque(sorted((*self.waiting, *due), key=_order))

    def _release(self, name: str) -> None:
        """Let the jobs that wait for the job with the id `name` be submitted, now that this job has ended."""
        ended_s = self.ledger.now_s + self._end_delay_s
        for job in self.held.pop(name, ()):
            submit_s = max(job.submit_s, ended_s + job.think_s)
            due_s = None if job.deadline_s is None else job.deadline_s + submit_s - job.submit_s
            job = replace(job, submit_s=submit_s, deadline_s=due_s)
            self._know(job)
            insort(self.waiting, job, key=_order)

    def _know(self, job: JobSpec) -> None:
        if job.job not in self.jobs:
            for name in self._inputs(job):
                self._readers[name] = self._readers.get(name, 0) + 1
        self.jobs[job.job] = job
        self.submit_times_s[job.job] = job.submit_s

    def _inputs(self, job: JobSpec) -> Iterable[str]:
        """Return the job's input files that are in `self.files`, once each."""
        splits = job.splits if self.files else ()
        return dict.fromkeys(split.file for split in splits if split.file in self.files)  # type: ignore[misc]

    def _submit(self, now_s: float, job: JobSpec) -> None:
        """Submit a job to the core, and remove the job from those not submitted if it is one of them."""
        place = next((place for place, known in enumerate(self.waiting) if known.job == job.job), None)
        if place is not None:
            del self.waiting[place]
        elif job.after in self.held:
            left = [known for known in self.held.pop(job.after) if known.job != job.job]
            self.held |= {job.after: left} if left else {}
        self.core.submit(now_s, job)
        self._know(job)

    def _forget(self, name: str) -> None:
        """Remove the ended job with the id `name`, and the blocks of input files that no other job reads."""
        job = self.jobs.pop(name, None)
        for file in () if job is None else self._inputs(job):
            self._readers[file] -= 1
            if not self._readers[file]:
                del self._readers[file]
                for block in self.files.pop(file):
                    self._file_of.pop(block.block, None)
                    self.core.forget_block(block.block)

    def _move_block(self, now_s: float, block: str, nodes: tuple[NodeId, ...]) -> None:
        """Record that the block now has replicas on `nodes`, for unstarted maps and later attempts."""
        name = self._file_of.get(block)
        if name is not None:
            self.files[name] = tuple(
                replace(known, nodes=nodes) if known.block == block else known for known in self.files[name]
            )
        self.core.replicas_changed(now_s, block, nodes)

    # -------------------------------------------------------------- attempts

    def assignment(self, launch: Launch) -> Assignment:
        """Return a launched attempt's task, input and output."""
        return assign(self.jobs[launch.job], launch)

    def blocks_of(self, split: Split | None) -> tuple[BlockRange, ...]:
        """Return the blocks of the split's file with current replicas."""
        return () if split is None or split.file is None else self.files[split.file]

    def _committed(self, now_s: float, attempt: str) -> None:
        """Report a commit to the core, and mark it as carried out."""
        self.core.committed(now_s, attempt)
        if isinstance(self._open.get(attempt), Commit):
            del self._open[attempt]


_JOB_STATE = ("jobs", "submit_times_s", "waiting", "held", "changes", "files", "_file_of", "_readers")


def _order(job: JobSpec) -> tuple[float, int, str]:
    """Return a sort key for the order of submission."""
    return (job.submit_s, *id_key(job.job))


def _key(effect: Effect) -> object:
    return getattr(effect, "attempt", effect)
