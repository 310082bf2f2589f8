"""A policy that answers at random within its limits, and records its hook calls."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from schedbed.scheduler.hooks import Kill, Limits, Proposal
from schedbed.tasks.parts import cut
from schedbed.tasks.specs import TaskKind
from tests.search.violation import hold

NOTED_HOOKS = ("submitted", "finished", "ended", "beat", "tick")


class ToldPolicy:
    """Records the hook calls of a policy, for comparison with the events.

    `heard` has the hook calls by name, `ready` the counts of each stage at its last change, `declined` the
    kinds of slots that the last answers left free, `copied` the kinds for which copies were requested.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.declined: set[TaskKind] = set()
        self.copied: set[TaskKind] = set()
        self.heard: dict[str, list[str]] = {name: [] for name in NOTED_HOOKS}
        self.ready: dict[tuple[str, TaskKind], tuple[bool, int, int, int]] = {}

    def submitted(self, view: Any, job: Any) -> None:
        """Implement `Hooks.submitted`: record the submitted job."""
        self.heard["submitted"].append(job.job)

    def finished(self, view: Any, job: Any) -> None:
        """Implement `Hooks.finished`: record the ended job."""
        self.heard["finished"].append(job.job)

    def ended(self, view: Any, attempt: Any) -> None:
        """Implement `Hooks.ended`: record the ended attempt."""
        self.heard["ended"].append(attempt.attempt)

    def beat(self, view: Any, node: Any) -> None:
        """Implement `Hooks.beat`: record the node of the heartbeat."""
        self.heard["beat"].append(node.node)

    def tick(self, view: Any) -> None:
        """Implement `Hooks.tick`: record that a tick came."""
        self.heard["tick"].append("")

    def changed(self, view: Any, job: Any, kind: TaskKind) -> None:
        """Implement `Hooks.changed`: record the stage's counts of tasks by state, which policies use to sort
        jobs.
        """
        stage = job.stage(kind)
        self.ready[job.job, kind] = (stage.ready, stage.running, stage.unstarted, stage.killing)


class AnyPolicy(ToldPolicy):
    """Proposes random tasks that may start; with `copies` it also proposes speculative attempts."""

    def __init__(self, luck: Random, limits: Limits, *, copies: bool) -> None:
        super().__init__(limits)
        self._luck = luck
        if copies:
            self.speculation = self

    def decide(self, view: Any, node: Any, kind: TaskKind) -> Proposal | None:
        """Return a random task that may start on the node; sometimes None."""
        luck = self._luck
        ready = any(job.stage(kind).ready for job in view.jobs.values())
        hold(ready and self._is_free(node, kind), "a policy is asked while something could start", kind)
        jobs = [job for job in view.jobs.values() if self._may(view, node, job, kind)]
        if not jobs or luck.random() < 0.1:
            self.declined.add(kind)
            return None
        job = luck.choice(jobs)
        if kind is TaskKind.REDUCE:
            return Proposal(job.any_reduce(), "any reduce")
        whole = job.whole_map(node.rack) if luck.random() < 0.5 else None
        if whole is not None and cut(whole.split, 0.3) is not None:
            return Proposal(whole, "a part", split=0.3)
        asked = luck.choice((job.local_map(node.node), job.rack_map(node.rack), job.free_map()))
        return Proposal(asked or job.any_map(), "any map")

    def _is_free(self, node: Any, kind: TaskKind) -> bool:
        slots = node.spec.map_slots if kind is TaskKind.MAP else node.spec.reduce_slots
        return not self.limits.slots or sum(each.task.kind is kind for each in node.attempts.values()) < slots

    def _may(self, view: Any, node: Any, job: Any, kind: TaskKind) -> bool:
        stage = job.stage(kind)
        return stage.ready and not view.avoids(job, node, kind) and view.fits(node, stage)

    def copy(self, view: Any, node: Any, kind: TaskKind) -> Proposal | None:
        """Return a speculative attempt of a task that runs on another node; often None."""
        hold(self._is_free(node, kind), "a policy is asked while something could start", f"a copy of {kind}")
        self.copied.add(kind)
        if self._luck.random() < 0.75:
            return None
        for job in view.jobs.values():
            for attempt in job.attempts.values() if self._may_copy(view, node, job, kind) else ():
                task = attempt.task
                if task.kind is kind and task.state == "running" and self._elsewhere(task, node):
                    return Proposal(task, "a copy", speculative=True)
        return None

    @staticmethod
    def _may_copy(view: Any, node: Any, job: Any, kind: TaskKind) -> bool:
        stage = job.stage(kind)
        return stage.open and view.fits(node, stage) and not view.avoids(job, node, kind)

    @staticmethod
    def _elsewhere(task: Any, node: Any) -> bool:
        runs = any(attempt.state != "killing" for attempt in task.attempts)
        return runs and all(attempt.node is not node for attempt in task.attempts)

    def preempt(self, view: Any) -> Iterator[Kill]:
        """Yield an order to kill one random attempt, at one tick of five."""
        live = [a for job in view.jobs.values() for a in job.attempts.values() if a.state != "killing"]
        if live and self._luck.random() < 0.2:
            yield Kill(self._luck.choice(live), "pool of nobody")
