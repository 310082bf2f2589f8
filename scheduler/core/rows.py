"""The tables' rows, made from the core's objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from schedbed.scheduler.core.entities import Attempt, Job, Task
from schedbed.scheduler.core.records import AttemptRow, DecisionRow, JobRow
from schedbed.tasks.specs import NodeId

make_row: Callable[..., Any] = tuple.__new__
"""A named tuple of a class from all its values: what calling the class does, in a third of the time."""


def attempt_row(attempt: Attempt) -> AttemptRow:
    """The row of an attempt that has just ended."""
    task, node, counters = attempt.task, attempt.node, attempt.counters
    stage, split = task.stage, task.split
    values = (
        stage.job.job,
        task.task,
        attempt.attempt,
        stage.label,
        "" if task.part is None else task.split_of,
        node.node,
        node.rack,
        attempt.locality,
        attempt.speculative,
        attempt.assigned_s,
        attempt.started_s,
        attempt.end_s,
        attempt.state._value_,
        attempt.reason,
        split.offset,
        split.length,
        counters.cpu_s,
        counters.read_local_bytes,
        counters.read_remote_bytes,
        counters.shuffle_bytes,
        counters.spill_bytes,
        counters.output_bytes,
        counters.shuffle_end,
        counters.sort_end,
    )
    return make_row(AttemptRow, values)


def decision_row(now_s: float, node: NodeId, task: Task, answer: str, reason: str) -> DecisionRow:
    """The row of what was decided of a task."""
    stage = task.stage
    return make_row(DecisionRow, (now_s, node, stage.job.job, task.task, stage.label, answer, reason))


def job_row(job: Job) -> JobRow:
    """The row of a job that has just ended."""
    spec = job.spec
    assert job.finish_s is not None
    return JobRow(
        spec.job,
        spec.name,
        spec.user,
        spec.queue,
        spec.app,
        job.submit_s,
        job.start_s,
        job.finish_s,
        job.deadline_s,
        job.maps.total,
        spec.reduces,
        spec.input_bytes,
        job.output_bytes,
        job.state.value,
    )
