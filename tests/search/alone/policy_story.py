"""A story of the core under shipped axes that have references: each answer is compared, in far more states than runs
have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from schedbed.scheduler.policy import Composed, Proposal
from schedbed.tasks.chance import chance
from schedbed.tasks.specs import TaskKind
from tests.search.alone.any_policy import NOTED_HOOKS
from tests.search.alone.core_story import CoreStory
from tests.search.oracles.arguments import noted_arguments
from tests.search.oracles.watching import watch_policy
from tests.search.policies import draw_policy, draw_referenced, made, with_rare_settings
from tests.search.violation import hold

POOLED = ("dp+greedy+slots", "lsps+delay+slots")
"""Of orders whose pools change their settings."""


class NotedPolicy:
    """The policy, with what it was told and what it declined noted as `AnyPolicy` does."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._asked: list[str] = []
        self.skipped: dict[str, str] = {}  # the reasons of the rows of an offer, by job
        if isinstance(inner, Composed):
            jobs = inner._jobs

            def noted(view: Any, node: Any, kind: TaskKind) -> Iterator[Any]:
                for job in jobs(view, node, kind):
                    self._asked.append(job.job)
                    yield job

            inner._jobs = noted
        self.limits = inner.limits
        self.declined: set[TaskKind] = set()
        self.copied: set[TaskKind] = set()
        self.heard: dict[str, list[str]] = {name: [] for name in NOTED_HOOKS}
        self.ready: dict[tuple[str, TaskKind], tuple[bool, int, int, int]] = {}
        preempt = getattr(inner, "preempt", None)
        if preempt is not None:
            self.preempt = preempt

    def decide(self, view: Any, node: Any, kind: TaskKind) -> Proposal | None:
        """As in `Policy`."""
        self._asked.clear()
        self.skipped.clear()
        answer = self._inner.decide(view, node, kind)
        for job in self._asked if kind is TaskKind.REDUCE else ():
            if answer is None or job != answer.task.job.job:
                hold(self.skipped.get(job), "a job that is passed over has its row", f"{node.node}: {job}")
        if answer is None:
            self.declined.add(kind)
        return answer

    def _tell(self, hook: str, view: Any, about: Any, name: str) -> None:
        self.heard[hook].append(name)
        if hasattr(self._inner, hook):
            getattr(self._inner, hook)(view, about)

    def submitted(self, view: Any, job: Any) -> None:
        """As in `Hooks`."""
        self._tell("submitted", view, job, job.job)

    def finished(self, view: Any, job: Any) -> None:
        """As in `Hooks`."""
        self._tell("finished", view, job, job.job)

    def ended(self, view: Any, attempt: Any) -> None:
        """As in `Hooks`."""
        self._tell("ended", view, attempt, attempt.attempt)

    def beat(self, view: Any, node: Any) -> None:
        """As in `Hooks`."""
        self._tell("beat", view, node, node.node)

    def tick(self, view: Any) -> None:
        """As in `Hooks`."""
        self.heard["tick"].append("")
        if hasattr(self._inner, "tick"):
            self._inner.tick(view)

    def changed(self, view: Any, job: Any, kind: TaskKind) -> None:
        """As in `Hooks`."""
        stage = job.stage(kind)
        self.ready[job.job, kind] = (stage.ready, stage.running, stage.unstarted, stage.killing)
        if hasattr(self._inner, "changed"):
            self._inner.changed(view, job, kind)


class PolicyStory(CoreStory):
    """One story. `play` raises Violation when an answer is not that of a reference."""

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
        """As in `CoreStory`; reasons for passing over a job are noted, too."""
        super().decision(row)
        if row.answer == "skip":
            self._policy.skipped[row.job] = row.reason

    def _check(self) -> None:
        """The rules of the core have stories of their own."""
