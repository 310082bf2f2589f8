"""Protective rules (guards) of the scheduler and simulator, each with a patch that disables the rule.

    python -m tests.search.guards [--tries N]     print the first seed that detects each missing guard

This tests the fault finder: with a guard disabled, some seed must make a check fail, and the failing check
must be one that is listed for the guard.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from schedbed.cluster.blocks.replication import Replication
from schedbed.cluster.conditions import Conditions
from schedbed.cluster.messages import Heartbeat, Reply
from schedbed.cluster.spec import NodeSpec
from schedbed.scheduler.core import core as cores
from schedbed.scheduler.core import index as indices
from schedbed.scheduler.core.core import Core
from schedbed.scheduler.core.core_tables import CoreTables
from schedbed.scheduler.core.entities import Attempt, Feed, Job, Node, Task
from schedbed.scheduler.core.ledger import JobTables, Ledger
from schedbed.scheduler.core.rows import Discard, Effect
from schedbed.scheduler.core.states import AttemptState, TaskState
from schedbed.scheduler.driver import Driver
from schedbed.scheduler.order import preemption
from schedbed.scheduler.order.fair import Fair
from schedbed.scheduler.simulate.skipping import TimerSchedule
from schedbed.scheduler.simulate.storage import Storage
from schedbed.tasks.parts import Part
from schedbed.tasks.specs import TaskKind
from tests.search.search import search
from tests.search.story import Story
from tests.search.violation import Violation

POLICIES = ("fifo", "fair", "delay", "fair+greedy+slots", "fifo+greedy+containers")
"""Policies of the stories that detect guards: a fixed list, so that a new policy does not change the seeds."""


SPLITTING = ("dtss",)


@dataclass(frozen=True, slots=True)
class Guard:
    """A protective rule, described by `says`.

    Without the rule, one of `checks` fails in the test scenario of `seed`, which runs under one of
    `policies`. `without` makes a context manager that disables the rule.
    """

    name: str
    says: str
    seed: int
    checks: tuple[str, ...]
    without: Callable[[], Any]  # Makes a context manager.
    policies: tuple[str, ...] = POLICIES


def find(guard: Guard, tries: int) -> tuple[Story, Violation] | None:
    """Search `tries` seeds from the guard's own seed on for a test scenario that fails without the guard.

    Return the scenario and the failed check; None if no seed fails.
    """
    with guard.without():
        return search(range(guard.seed, guard.seed + tries), guard.policies)


def swap(where: Any, name: str, other: Any) -> Callable[[], Any]:
    """Return a function that makes a context manager, which replaces an attribute of `where` by `other`."""
    return lambda: patch.object(where, name, other)


def _slots_held(states: tuple[AttemptState, ...]) -> Callable[[Node, TaskKind], int]:
    """Return a faulty `Node.free_slots` that counts only attempts in the given states as using slots."""

    def free_slots(self: Node, kind: TaskKind) -> int:
        slots = self.spec.map_slots if kind is TaskKind.MAP else self.spec.reduce_slots
        held = [a for a in self.attempts.values() if a.task.kind is kind and a.state in states]
        return slots - len(held)

    return free_slots


_heartbeat, _register = Core.heartbeat, Core.register
_take_effects, _open_reduces = Core.take_effects, JobTables._open_reduces
_end_attempt, _lose_output = Ledger.end_attempt, JobTables.lose_output
_fair_jobs, _recover, _report = Fair.jobs, Driver.recover, Storage.register


def _any_life(self: Core, now_s: float, heartbeat: Heartbeat) -> Reply:
    node = self._ledger.nodes.get(heartbeat.node)
    known = heartbeat if node is None else replace(heartbeat, incarnation=node.incarnation)
    return _heartbeat(self, now_s, known)


def _any_sequence(self: Core, now_s: float, heartbeat: Heartbeat) -> Reply:
    node = self._ledger.nodes.get(heartbeat.node)
    if node is not None:
        node.reply = None
    return _heartbeat(self, now_s, heartbeat)


def _any_registration(self: Core, now_s: float, node: NodeSpec, incarnation: int) -> None:
    known = self._ledger.nodes.get(node.node)
    if known is not None:
        known.incarnation = min(known.incarnation, incarnation - 1)
    _register(self, now_s, node, incarnation)


def _same_life(self: Core, now_s: float, node: NodeSpec, incarnation: int) -> None:
    self._ledger.now_s = now_s
    known = self._ledger.nodes.get(node.node)
    if known is not None and known.alive and incarnation > known.incarnation:
        known.incarnation, known.sequence, known.reply = incarnation, -1, None
    else:
        _register(self, now_s, node, incarnation)


def _forgets_ticks(self: Driver, now_s: float, kind: str, *arguments: Any) -> Any:
    if self._journal is not None and kind != "tick":
        self._journal.append(now_s, kind, *arguments)
    return self.kinds[kind](now_s, *arguments)


def _recovers_only(self: Driver, now_s: float) -> list[Effect]:
    _recover(self, now_s)
    return []


def _reports_nothing(self: Storage, now_s: float, node: str, rack: str, blocks: Any) -> None:
    _report(self, now_s, node, rack, () if now_s else blocks)


def _any_commit(self: Core, attempt: str) -> Task | None:
    task = self._task_of(attempt)
    return task if task is not None and task.winner is not None else None


@contextmanager
def _splits_again() -> Iterator[None]:
    """Allow splitting any unstarted map that has input and is not a part, even if it was tried before."""

    def is_whole(task: Any) -> bool:
        return task.state is TaskState.UNSTARTED and task.part is None and bool(task.hosts)

    uncut = Ledger._uncut

    def lenient(task: Task, proposal: Any) -> str | None:
        tries, task.tries = task.tries, 0
        try:
            return uncut(task, proposal)
        finally:
            task.tries = tries

    with patch.object(indices, "_is_whole", is_whole), patch.object(Ledger, "_uncut", staticmethod(lenient)):
        yield


@contextmanager
def _keeps_dead_outputs() -> Iterator[None]:
    """Keep the finished maps of a lost node as done, although their outputs are gone."""

    def keep(self: JobTables, task: Task) -> None:
        winner = task.winner
        if winner is None or winner.node.alive:
            _lose_output(self, task)

    with patch.object(JobTables, "lose_output", keep):
        yield


def _loses_quietly(self: JobTables, task: Task) -> None:
    _lose_output(self, task)
    task.stage.job.outputs.pop()


def _no_discard(self: Core) -> list[Effect]:
    return [effect for effect in _take_effects(self) if not isinstance(effect, Discard)]


def _opens_only(self: JobTables, job: Job) -> None:
    if not job.reduces.open:
        _open_reduces(self, job)


def _counts_lost(self: Ledger, attempt: Attempt, state: AttemptState, reason: str) -> None:
    if state is AttemptState.LOST:
        attempt.task.failures += 1
        if attempt.task.failures >= 2 and attempt.task.state is TaskState.RUNNING:
            state = AttemptState.FAILED
            attempt.task.failures = self._max_attempts
    _end_attempt(self, attempt, state, reason)


def _late_feed(node: Node, job: Job) -> Feed:
    feed = node.feeds.get(job.job)
    if feed is None:
        feed = node.feeds[job.job] = Feed(job)
        feed.cursor = len(job.outputs)
    return feed


def _greedy_victims(pools: Any, names: Any, kind: Any, left: Any, shares: Any) -> Iterator[Any]:
    return _victims(pools, names, kind, left, dict.fromkeys(shares, 0.0))


_victims = preemption._victims


class _Memory:
    """A call counter that outlives each policy, so that answers depend on more than the events."""

    asked = 0


def _remembers(self: Fair, view: Any, node: Any, kind: Any) -> Any:
    _Memory.asked += 1
    jobs = list(_fair_jobs(self, view, node, kind))
    return jobs if _Memory.asked % 7 else jobs[::-1]


GUARDS = (
    Guard(
        "promised slots",
        "A slot that a reply has promised is taken before its node says so.",
        1,
        ("no slot is over-used", "the first job that may has the room"),
        swap(Node, "free_slots", _slots_held((AttemptState.RUNNING, AttemptState.KILLING))),
    ),
    Guard(
        "killing holds its slot",
        "An attempt that was told to stop has its slot until its node says that it has stopped.",
        41,
        ("no slot is over-used",),
        swap(Node, "free_slots", _slots_held((AttemptState.ASSIGNED, AttemptState.RUNNING))),
    ),
    Guard(
        "incarnation",
        "A heartbeat of an earlier life of a node is told to register, and nothing else comes of it.",
        111,
        ("no slot is over-used", "a repeated message changes nothing", "an unknown node registers"),
        swap(Core, "heartbeat", _any_life),
    ),
    Guard(
        "sequence",
        "A heartbeat that was answered gets the same answer again.",
        1,
        ("a repeat is answered alike", "a repeated message changes nothing"),
        swap(Core, "heartbeat", _any_sequence),
    ),
    Guard(
        "registration",
        "A registration that comes again begins no new life.",
        2,
        ("a repeated message changes nothing",),
        swap(Core, "register", _any_registration),
    ),
    Guard(
        "the life before",
        "A node that has restarted has lost what ran there.",
        166,
        ("a new life begins with nothing", "no record is lost or doubled", "every job ends"),
        swap(Core, "register", _same_life),
    ),
    Guard(
        "commit arbitration",
        "Only the attempt whose output is being put into place can be committed, and once.",
        1,
        ("no BadTransition",),
        swap(Core, "_committing", _any_commit),
    ),
    Guard(
        "lost maps run again",
        "The finished maps of a node that is lost run again.",
        56,
        ("the books balance",),
        _keeps_dead_outputs,
    ),
    Guard(
        "lost outputs are told of",
        "Reduces are told when a map's output is gone.",
        9,
        ("the books balance",),
        swap(JobTables, "lose_output", _loses_quietly),
    ),
    Guard(
        "fetch failures",
        "A map whose output cannot be fetched runs again.",
        82,
        ("a job that can end well does", "every job ends"),
        swap(Core, "_fetch_failed", lambda self, failure: None),
    ),
    Guard(
        "all map outputs",
        "A node's first reduce of a job is told of all its map outputs, those from before it came too.",
        0,
        ("no record is lost or doubled", "every job ends", "a node is told what it needs"),
        swap(Ledger, "_feed", staticmethod(_late_feed)),
    ),
    Guard(
        "tracker silence",
        "A node that is silent for too long is lost, and what ran there runs elsewhere.",
        16,
        ("every job ends",),
        swap(cores.CoreConfig, "silence_s", 1e9),
    ),
    Guard(
        "discard",
        "What a failed or superseded attempt wrote aside is deleted.",
        5,
        ("what is not wanted is deleted",),
        swap(Core, "take_effects", _no_discard),
    ),
    Guard(
        "excluded nodes",
        "A job avoids a node on which its attempts have failed three times.",
        4,
        ("a job avoids where it failed",),
        swap(CoreTables, "avoids", lambda self, job, node, kind: False),
    ),
    Guard(
        "slow-start closes again",
        "No reduce starts while too few maps are done, also when finished maps were lost.",
        187,
        ("reduces wait for slow-start",),
        swap(JobTables, "_open_reduces", _opens_only),
    ),
    Guard(
        "only failures count",
        "An attempt that is lost with its node does not count as a failure of its task.",
        17,
        ("a job fails after four failures of a task", "rows tell what was"),
        swap(Ledger, "end_attempt", _counts_lost),
    ),
    Guard(
        "pre-emption's limit",
        "Pre-emption leaves each pool its fair share.",
        4,
        ("pre-emption leaves a pool its share", "pre-emption gives back what is owed"),
        swap(preemption, "_victims", _greedy_victims),
    ),
    Guard(
        "policies forget",
        "A policy's answers follow from the events alone, so that a replay decides alike.",
        4,
        ("a replay gives the same rows", "a replay gives the same state", "Fair asks the jobs in its order"),
        swap(Fair, "jobs", _remembers),
    ),
    Guard(
        "the journal",
        "Every event is in the JobTracker's journal before it is applied.",
        33,
        ("a replay gives the same state",),
        swap(Driver, "do", _forgets_ticks),
    ),
    Guard(
        "unfinished commits",
        "A JobTracker that has recovered asks again for commits of which it does not know the end.",
        101,
        ("what may not have been done is done again", "every job ends"),
        swap(Driver, "recover", _recovers_only),
    ),
    Guard(
        "re-replication",
        "A block that has lost a replica is copied.",
        13,
        ("replicas are restored",),
        swap(Replication, "copies", lambda self, now_s, node: []),
    ),
    Guard(
        "block reports",
        "A node that comes back reports the blocks that it still holds.",
        8,
        ("replicas are found again", "a block that a node holds is read"),
        swap(Storage, "register", _reports_nothing),
    ),
    Guard(
        "waiting is counted",
        "The simulator plays the heartbeats by which the delay policy counts its waiting.",
        2,
        ("a heartbeat that is not played changes nothing",),
        swap(TimerSchedule, "want_any", lambda self, now_s: None),
    ),
    Guard(
        "what is split",
        "Of a map that is split each part reads its own bytes only.",
        2,
        ("the books balance", "no record is lost or doubled"),
        swap(Part, "split", lambda self, index: replace(self.whole, index=index)),
        SPLITTING,
    ),
    Guard(
        "tried as a whole",
        "A map that was tried as a whole is not split: its output may have been read.",
        673,
        ("no record is lost or doubled", "a job tells what could start"),
        _splits_again,
        SPLITTING,
    ),
    Guard(
        "faults end",
        "A fault that has ended is in force no longer, so that its node comes back.",
        139,
        ("every job ends",),
        swap(Conditions, "end", lambda self, fault: None),
    ),
)


def print_seeds(guards: Iterable[Guard], about: str | None) -> None:
    """Print each guard with the first seed and check that detect its absence.

    Parses the command line itself; `about` is the help text.
    """
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tries", type=int, default=300)
    tries = parser.parse_args().tries
    for guard in guards:
        found = find(replace(guard, seed=0), tries)
        what = f"seed {found[0].seed}: {found[1]}" if found else f"no seed of {tries}"
        print(f"{guard.name}: {what[:250]}", flush=True)


if __name__ == "__main__":
    print_seeds(GUARDS, __doc__)
