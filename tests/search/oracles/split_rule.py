"""Reference for the map splits of xu2015 (Algorithm 1 and chapter 4), with fixed shares or learned ones
(`p=auto`).
"""

from __future__ import annotations

from typing import Any

from schedbed.scheduler.hooks import Proposal
from schedbed.tasks.specs import TaskKind
from tests.search.oracles.map_choices import ANYWHERE, RACK, DelayRule, Waiting, choices, is_of
from tests.search.violation import hold

CHECK = "maps are split as xu2015 splits them"
FIRST, NEWEST = 0.25, 0.2
EPSILON = 1e-9


class SplitRule(DelayRule):
    """Extends the reference for delay scheduling by splits.

    If `share` is None, the share of each split is learned from ended attempts and from waiting times.
    """

    def __init__(self, share: float | None, node_wait_s: float, rack_wait_s: float, *, typed: bool) -> None:
        super().__init__(node_wait_s, rack_wait_s, typed=typed)
        self._share, self._first_wait_s = share, node_wait_s
        self._means: dict[tuple[str, str], float] = {}
        self._launch_s = 0.0
        self._split_s: dict[tuple[str, int], float] = {}
        self._ended = False

    def _learn(self, job: Any, what: str, value: float) -> None:
        key = job.spec.name, what
        before = self._means.get(key, value)
        self._means[key] = (1 - NEWEST) * before + NEWEST * value

    def ended(self, view: Any, attempt: Any) -> None:
        """Learn the time per byte of local and remote maps, and the launch time, from a success."""
        if attempt.state != "succeeded" or attempt.started_s is None:
            return
        launch_s = max(0.0, attempt.started_s - attempt.assigned_s)
        self._launch_s = (1 - NEWEST) * self._launch_s + NEWEST * launch_s if self._ended else launch_s
        self._ended = True
        length = attempt.task.split.length
        if attempt.task.kind is TaskKind.MAP and length:
            where = "local" if attempt.locality == "node" else "remote"
            self._learn(attempt.task.job, where, (attempt.end_s - attempt.started_s) / length)

    def told(self, view: Any, node: Any, job: Any, answer: Any) -> None:
        """Compare an answer with delay scheduling, except that a job may split a map instead of waiting."""
        mine = self._jobs.setdefault(job.job, Waiting())
        waited_s, asked_before = mine.wait_s, mine.skipped_s is not None
        if asked_before or self._wanted(mine, choices(view, node, job)) is not None:
            super().told(view, node, job, answer)
        else:
            self._check_wait(view, node, job, mine, answer)
        if isinstance(answer, Proposal) and answer.split is None:
            part = answer.task.part
            if part is None:
                if waited_s > 0 and node.node in answer.task.hosts:
                    self._learn(job, "delay", waited_s)
            else:
                since_s = self._split_s.pop((job.job, part.whole.index), None)
                if since_s is not None:
                    self._learn(job, "delay", view.now_s - since_s)

    def _check_wait(self, view: Any, node: Any, job: Any, mine: Waiting, answer: Any) -> None:
        wholes = [
            task
            for task in job.maps.tasks
            if task.state == "unstarted" and task.hosts and not task.tries and task.part is None
        ]
        seen = f"{view.now_s}: {job.job} on {node.node}: {answer}, {self._means}, {self._launch_s}"
        if self._share == 1.0:
            there = choices(view, node, job)
            wanted = RACK if there[RACK] else ANYWHERE
            hold(answer.split is None and is_of(view, node, answer, wanted), CHECK, seen)
            mine.level = 0
            return
        near = [task for task in wholes if is_of(view, node, Proposal(task, ""), RACK)] or wholes
        if not isinstance(answer, Proposal):
            uncut = not job.reduces.total or not near
            bytes_of = [share * task.split.length for task in near for share in self._shares(task)]
            hold(uncut or min(bytes_of) < 1, CHECK, f"{seen}, {bytes_of}")
            mine.skipped_s = view.now_s
            return
        hold(job.reduces.total > 0, CHECK, seen)
        shares, split = self._shares(answer.task), answer.split
        hold(
            any(abs((1.0 if split is None else split) - share) < EPSILON for share in shares),
            CHECK,
            f"{seen}, {shares}",
        )
        hold(answer.task in near, CHECK, f"{seen}: of {[task.task for task in near]}")
        mine.level = 0
        if split is not None:
            self._split_s[job.job, answer.task.index] = view.now_s

    def _shares(self, task: Any) -> list[float]:
        """Return the share of the task's input that a split must cut off; two values if rounding decides
        between them.
        """
        if self._share is not None:
            return [self._share]
        known = {what: mean for (name, what), mean in self._means.items() if name == task.job.spec.name}
        if "local" not in known and "remote" not in known:
            return [FIRST]
        length = task.split.length
        here_s = length * known.get("local", known.get("remote", 0.0))
        there_s = length * known.get("remote", known.get("local", 0.0))
        delay_s = known.get("delay", self._first_wait_s)
        if here_s + there_s <= 0:
            return [0.0]
        # Both parts end at once: P M = (1 - P) N + D (equations 17 to 20).
        share = min(1.0, (here_s + delay_s) / (here_s + there_s))
        rest_s = (1 - share) * here_s + delay_s if share < 1 else 0.0
        gain_s = here_s + delay_s - max(share * there_s, rest_s)
        if abs(gain_s - self._launch_s) < EPSILON:
            return [share, 0.0]
        return [share if gain_s > self._launch_s else 0.0]
