"""Hand-written mutants of the shared tracker and driver, each as a patch that makes one plausible mistake.

    python -m tests.search.mutants [--tries N]     print the first seed that detects each mutant

In live runs, `cluster.tasktracker` and `scheduler.jobtracker` use the same tracker and driver. The fault
finder must detect each mutant, as it detects each disabled guard (`tests.search.guards`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from schedbed.cluster.messages import Action, Heartbeat, Launch, Reply
from schedbed.cluster.tracker import Tracker
from schedbed.scheduler import driver
from schedbed.scheduler.assignment import Assignment, assign
from schedbed.scheduler.driver import Driver
from schedbed.scheduler.policy import Policy
from schedbed.tasks.specs import JobSpec, TaskKind, task_of
from tests.search.guards import Guard, print_seeds, swap

_heartbeat, _on_reply, _begin_life = Tracker.heartbeat, Tracker.on_reply, Tracker.begin_life
_do, _start_over = Driver.do, Driver._start_over


def _new_each_time(self: Tracker) -> Heartbeat:
    self.unanswered = None
    return _heartbeat(self)


def _same_sequence(self: Tracker) -> Heartbeat:
    if self.unanswered is None:
        self.sequence = 0
    return _heartbeat(self)


def _no_reports(self: Tracker) -> Heartbeat:
    if self.unanswered is None:
        self.finished = []
    return _heartbeat(self)


def _no_fetch_failures(self: Tracker) -> Heartbeat:
    if self.unanswered is None:
        self.fetch_failures = []
    return _heartbeat(self)


def _unlisted(self: Tracker, reply: Reply) -> tuple[Action, ...]:
    before = dict(self.running)
    actions = _on_reply(self, reply)
    self.running = before
    return actions


def _drops_others(self: Tracker, reply: Reply) -> tuple[Action, ...]:
    actions = _on_reply(self, reply)
    launches = tuple(action for action in actions if isinstance(action, Launch))
    return launches or actions


def _same_incarnation(self: Tracker, incarnation: int) -> None:
    _begin_life(self, min(incarnation, 1))


def _journals_no(what: str) -> Any:
    def do(self: Driver, now_s: float, kind: str, *arguments: Any) -> Any:
        return self.kinds[kind](now_s, *arguments) if kind == what else _do(self, now_s, kind, *arguments)

    return do


def _same_policy(self: Driver, *thawed: Policy) -> None:
    if hasattr(self, "policy"):
        known = self.policy
        self._make_policy = lambda: known
    _start_over(self)


def _fresh_policy(self: Driver, *thawed: Policy) -> None:
    _start_over(self)


def _one_file(job: JobSpec, launch: Launch) -> Assignment:
    told = assign(job, launch)
    output = told.output
    return (
        told if output is None else replace(told, output=output.replace(told.attempt, task_of(told.attempt)))
    )


def _no_map_files(job: JobSpec, launch: Launch) -> Assignment:
    told = assign(job, launch)
    return replace(told, output=None) if told.kind is TaskKind.MAP else told


ENDS = ("every job ends",)
REPLAYS = ("a replay gives the same state",)

MUTANTS = (
    Guard(
        "a resend is another heartbeat",
        "The tracker makes a new heartbeat while a reply is missing.",
        7,
        ENDS,
        swap(Tracker, "heartbeat", _new_each_time),
    ),
    Guard(
        "one sequence for all",
        "The tracker gives every heartbeat the same sequence.",
        0,
        ("launched once",),
        swap(Tracker, "heartbeat", _same_sequence),
    ),
    Guard(
        "reports are forgotten",
        "The tracker drops the reports of attempts that have ended.",
        0,
        ENDS,
        swap(Tracker, "heartbeat", _no_reports),
    ),
    Guard(
        "failed fetches are forgotten",
        "The tracker drops what its reduces could not fetch.",
        82,
        ("a job that can end well does", *ENDS),
        swap(Tracker, "heartbeat", _no_fetch_failures),
    ),
    Guard(
        "launches are not listed",
        "The tracker does not list what it was told to launch.",
        0,
        ENDS,
        swap(Tracker, "on_reply", _unlisted),
    ),
    Guard(
        "launches hide other orders",
        "The tracker passes on only the launches of a reply that has some.",
        0,
        ENDS,
        swap(Tracker, "on_reply", _drops_others),
    ),
    Guard(
        "one incarnation for all",
        "The tracker begins its next life as the same incarnation.",
        7,
        ENDS,
        swap(Tracker, "begin_life", _same_incarnation),
    ),
    Guard(
        "submissions are not journalled",
        "The driver submits jobs without a word in the journal.",
        13,
        REPLAYS,
        swap(Driver, "do", _journals_no("submit")),
    ),
    Guard(
        "failed commits are not journalled",
        "The driver hears of failed commits without a word in the journal.",
        25,
        REPLAYS,
        swap(Driver, "do", _journals_no("commit_failed")),
    ),
    Guard(
        "moved blocks are not journalled",
        "The driver hears of moved blocks without a word in the journal.",
        33,
        REPLAYS,
        swap(Driver, "do", _journals_no("replicas_changed")),
    ),
    Guard(
        "the plan is not journalled",
        "The driver forgets in a crash which jobs are to come.",
        13,
        ("every job ends once",),
        swap(Driver, "do", _journals_no("plan")),
    ),
    Guard(
        "the policy outlives a crash",
        "The driver replays its journal with the policy that it had.",
        13,
        (*REPLAYS, "Fair asks the jobs in its order"),
        swap(Driver, "_start_over", _same_policy),
    ),
    Guard(
        "snapshots without the policy",
        "A JobTracker goes on from a snapshot with a policy that has seen nothing.",
        13,
        (*REPLAYS, "a snapshot changes nothing", "no KeyError"),
        swap(Driver, "_start_over", _fresh_policy),
    ),
    Guard(
        "attempts share a file",
        "All attempts of a task are told the same path to write aside.",
        0,
        ("outputs are in place and nothing else",),
        swap(driver, "assign", _one_file),
    ),
    Guard(
        "maps write no files",
        "Maps are told no path to write, also in jobs without reduces.",
        12,
        ("outputs are in place and nothing else",),
        swap(driver, "assign", _no_map_files),
    ),
)


if __name__ == "__main__":
    print_seeds(MUTANTS, __doc__)
