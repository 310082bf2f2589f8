"""A random test of shipped policies in the core: each answer is compared with a reference.

The core alone reaches far more states than whole simulations do.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from schedbed.scheduler.hooks import Proposal
from schedbed.scheduler.policy import Composed, together
from schedbed.tasks.chance import chance
from schedbed.tasks.specs import TaskKind
from tests.search.alone.any_policy import NOTED_HOOKS, ToldPolicy
from tests.search.alone.core_story import CoreStory
from tests.search.oracles.arguments import noted_arguments
from tests.search.oracles.watching import watch_policy
from tests.search.policies import draw_policy, draw_referenced, made, with_rare_settings
from tests.search.violation import hold

POOLED = ("dp+greedy+slots", "lsps+delay+slots")
"""Policies whose orders change the settings of their pools."""


class NotedPolicy(ToldPolicy):
    """A wrapper of the policy `inner` that records the hook calls, and the kinds of slots left free."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner.limits)
        self._inner = inner
        self._asked: list[str] = []
        self.skipped: set[str] = set()  # Jobs with a skip row for the current offer.
        self._said: dict[tuple[str, str], str] = {}  # Reasons of skip rows that still hold, by job and kind.
        self._launched_s: dict[tuple[str, str], float] = {}
        if isinstance(inner, Composed):
            jobs = inner._jobs

            def noted(view: Any, node: Any, kind: TaskKind) -> Iterator[Any]:
                for job in jobs(view, node, kind):
                    self._asked.append(job.job)
                    yield job

            inner._jobs = noted
        for name in (*NOTED_HOOKS, "changed"):
            if hasattr(inner, name):
                setattr(self, name, together([getattr(self, name), getattr(inner, name)], answers=False))
        for name in ("preempt", "stage_ready"):
            if hasattr(inner, name):
                setattr(self, name, getattr(inner, name))

    def decide(self, view: Any, node: Any, kind: TaskKind) -> Proposal | None:
        """Implement `Policy`: ask the inner policy, and check that each job it passes over has a skip row."""
        self._asked.clear()
        self.skipped.clear()
        answer = self._inner.decide(view, node, kind)
        for job in self._asked if kind is TaskKind.REDUCE else ():
            if answer is None or job != answer.task.job.job:
                has_row = job in self.skipped or (job, kind.value) in self._said
                hold(has_row, "a job that is passed over has its row", f"{node.node}: {job}")
        if answer is None:
            self.declined.add(kind)
        return answer

    def note_row(self, row: Any) -> None:
        """Record a row of decisions, and check that a job does not repeat why it declines."""
        about = row.job, row.kind
        if row.answer == "skip":
            hold(self._said.get(about) != row.reason, "a job says once why it declines", row)
            self.skipped.add(row.job)
            if self._launched_s.get(about) != row.t:
                self._said[about] = row.reason
        elif row.answer in ("launch", "split"):
            self._said.pop(about, None)
            self._launched_s[about] = row.t


class PolicyStory(CoreStory):
    """A random test of the core under a shipped policy.

    `run` raises Violation for an answer that differs from the reference.
    """

    BYTES = 512 * 2**20
    NAMES = 3
    SUBMITS, ENDING = 5.0, 0.12
    USERS = ("ana", "bo", "cy")

    def _made_policy(self, seed: int) -> NotedPolicy:
        luck = chance(seed, "policy alone")
        with noted_arguments():
            spec = with_rare_settings(luck, draw_referenced(luck))
            policy = made(draw_policy(luck, POOLED) if luck.random() < 0.15 else spec)
        return NotedPolicy(watch_policy(policy))

    def decision(self, row: Any) -> None:
        """Implement the sink: record the decision, also with the policy."""
        super().decision(row)
        self._policy.note_row(row)

    def _check(self) -> None:
        """Skip the checks of the core's tables: `CoreStory` makes them under a random policy."""
