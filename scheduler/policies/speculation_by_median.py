"""Spark's speculation, combined with any policy: copies of tasks that run longer than most of their stage took.

Source: TaskSetManager.checkSpeculatableTasks, checkAndSubmitSpeculatableTasks and dequeueTask of Spark 3.5.5. A
stage is the maps or the reduces of a job. Once the share `quantile` of its tasks is done, a task that has run for
longer than `multiplier` times the median of theirs, and than `min_runtime`, gets one copy, on another node. A stage
with no more tasks than a node has slots is judged by `threshold` before. Not modeled: the rate of records
(spark.speculation.efficiency), and barrier stages.
"""

from __future__ import annotations

from bisect import insort
from statistics import median
from typing import Any

from schedbed.scheduler.hooks import Proposal
from schedbed.scheduler.policies.late import has_room
from schedbed.scheduler.view import AttemptView, JobView, NodeView, View
from schedbed.tasks.specs import TaskKind


class SparkSpeculation:
    """A speculation method that copies tasks by the median of their stage, for slots that the policy leaves free."""

    def __init__(
        self,
        *,
        quantile: float = 0.75,
        multiplier: float = 1.5,
        min_runtime_s: float = 0.1,
        threshold_s: float | None = None,
    ) -> None:
        self._quantile, self._multiplier = quantile, multiplier
        self._min_runtime_s, self._threshold_s = min_runtime_s, threshold_s
        self.admission: Any = None  # The policy's admission, if it has one.
        self._took_s: dict[tuple[str, TaskKind], list[float]] = {}  # Of the tasks that succeeded, sorted.
        self._copied: dict[str, dict[str, None]] = {}  # Tasks, by job.

    def ended(self, view: View, attempt: AttemptView) -> None:
        """Implement `Hooks.ended`: note how long a task took. A task without a live copy may be copied again."""
        task, job = attempt.task, attempt.task.job
        if attempt.state == "succeeded" and job.active:
            insort(self._took_s.setdefault((job.job, task.kind), []), attempt.end_s - attempt.assigned_s)
        elif attempt.speculative:
            self._copied.get(job.job, {}).pop(task.task, None)

    def finished(self, view: View, job: JobView) -> None:
        """Implement `Hooks.finished`: forget the job."""
        self._copied.pop(job.job, None)
        for kind in TaskKind:
            self._took_s.pop((job.job, kind), None)

    def tick(self, view: View) -> None:
        """Implement `Hooks.tick`: do nothing, since tasks are judged when a slot is free."""

    def copy(self, view: View, node: NodeView, kind: TaskKind) -> Proposal | None:
        """Implement `Speculation.copy`: propose a slow task of the first job in order of submission."""
        for job in view.jobs.values():
            limit_s, why = self._limit_s(node, job, kind)
            if limit_s is None:
                continue
            copied = self._copied.get(job.job, {})
            for attempt in job.attempts.values():
                task, ran_s = attempt.task, view.now_s - attempt.assigned_s
                if task.kind is not kind or attempt.state != "running" or ran_s <= limit_s:
                    continue
                if len(task.attempts) > 1 or task.task in copied or attempt.node is node:
                    continue
                # Asked last, since an admission may record what it grants, such as the slots of a gang.
                if has_room(view, node, job, kind, self.admission):
                    self._copied.setdefault(job.job, {})[task.task] = None
                    where = f"copy of {attempt.attempt} on {attempt.node.node}"
                    return Proposal(task, f"{where}: {ran_s:.1f} s, more than {why}", speculative=True)
        return None

    def _limit_s(self, node: NodeView, job: JobView, kind: TaskKind) -> tuple[float | None, str]:
        """Return after how long a task of the stage is slow, with the reason, or None as long as none is."""
        total, took_s = job.stage(kind).total, self._took_s.get((job.job, kind), [])
        if total == 1 and self._threshold_s is None:
            return None, ""
        if len(took_s) >= max(1, int(self._quantile * total)):
            usual_s = median(took_s)
            limit_s = max(self._multiplier * usual_s, self._min_runtime_s)
            return limit_s, f"{limit_s:.1f} s, by the median of {usual_s:.1f} s"
        if self._threshold_s is not None and total <= max(1, node.spec.slots(kind)):
            return self._threshold_s, f"the threshold of {self._threshold_s:.1f} s"
        return None, ""
