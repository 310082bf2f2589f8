"""The recorded answers of a user's policy, for the journal.

When a restarted JobTracker replays its journal, it uses the recorded answers even if the policy answers
differently now. The policy is nevertheless called, so that the policy's own state, including random numbers,
becomes the same as before the restart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from schedbed.scheduler.core.entities import Task
from schedbed.scheduler.core.ledger import Ledger
from schedbed.scheduler.policy import Kill, Proposal
from schedbed.tasks.values import value

Answer = tuple[Any, ...]
"""An answer: (job, kind, index, reason, split, speculative), pairs (attempt, reason), or () for None."""


@value
class Replies:
    """The policy's answers to all calls during one event of the journal, in order."""

    answers: tuple[Answer, ...]


class Answers:
    """A recorder of a user's policy's answers. In a replay, it returns recorded answers instead of new ones.

    `line_of`, used in messages about differences, returns the file and line of a method of the policy. If a
    shipped speculation proposes copies of slow tasks, the copies are not recorded, because a replay computes
    them again.
    """

    def __init__(self, line_of: Callable[[str], str]) -> None:
        self._line_of = line_of
        self._given: list[Answer] = []
        self._known: list[Answer] | None = None
        self.difference = ""
        """A line about the first answer in a replay that differs from the record; empty if none differs."""

    def take(self) -> Replies | None:
        """Return the answers recorded since the last call, or None if the policy was not called."""
        given, self._given = self._given, []
        return Replies(tuple(given)) if given else None

    def replay(self, replies: Replies | None) -> None:
        """Set the recorded answers to use during the next event.

        With None, no answers were recorded for this event. The policy's new answers are used then, which is
        safe because no node has received others.
        """
        self._known = None if replies is None else list(reversed(replies.answers))

    def proposal(self, view: Ledger, proposal: Proposal | None, method: str) -> Proposal | None:
        """Record the policy's proposal and return it. In a replay, return the recorded proposal instead.

        `method` is the name of the policy's method that made the proposal.
        """
        now = _plain(proposal)
        answer = self._counts(view, now, method)
        return proposal if answer is now else _proposal(view, answer)

    def kills(self, view: Ledger, kills: list[Kill]) -> list[Kill]:
        """Record the policy's kills and return them. In a replay, return the recorded kills instead."""
        now = tuple((kill.attempt.attempt, kill.reason) for kill in kills)
        answer = self._counts(view, now, "preempt")
        return kills if answer is now else _kills(view, answer)

    def _counts(self, view: Ledger, now: Answer, method: str) -> Answer:
        """Return the answer to use: in a replay the recorded one, else `now`, the policy's new answer.

        Outside a replay, record the answer. At the first difference between recorded and new answer, store a
        description in `difference`. `method` is the policy's method that answered.
        """
        if not self._known:
            self._given.append(now)
            return now
        before = self._known.pop()
        if before != now and not self.difference:
            self.difference = (
                f"the policy answers otherwise than before the JobTracker's restart ({self._line_of(method)}): "
                f"{_shown(before)} at {view.now_s:.1f} s, now {_shown(now)}; the first answer holds, "
                "chance belongs to view.random"
            )
        return before


def _plain(proposal: Proposal | None) -> Answer:
    if proposal is None:
        return ()
    task: Any = proposal.task
    job = task.stage.job.job
    return (job, task.stage.kind, task.index, proposal.reason, proposal.split, proposal.speculative)


def _proposal(view: Ledger, answer: Answer) -> Proposal | None:
    if not answer:
        return None
    job, kind, index, reason, split, speculative = answer
    task: Task = view.jobs[job].stage(kind).tasks[index]
    return Proposal(task, reason, split, speculative)


def _kills(view: Ledger, answer: Answer) -> list[Kill]:
    live = {name: attempt for job in view.jobs.values() for name, attempt in job.attempts.items()}
    return [Kill(live[name], reason) for name, reason in answer]


def _shown(answer: Answer) -> str:
    if not answer:
        return "nothing"
    if isinstance(answer[0], tuple):
        return "kill " + ", ".join(name for name, _ in answer)
    return f"{answer[1].value} {answer[2]} of {answer[0]}"
