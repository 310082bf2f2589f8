"""Rows of the tables that the core writes: their columns, and the functions that make rows from the core's objects.

A column is an attribute of a row's class and a value in the function below the class; `scheduler.history` takes its
name and type from here. Files have the columns `policy, repeat` before them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from schedbed.scheduler.core.entities import Attempt, Job, Task
from schedbed.tasks.specs import NodeId

make_row: Callable[..., Any] = vars(tuple)["__new__"]
"""A named tuple of a class from all its values: what calling the class does, in a third of the time."""


class AttemptRow(NamedTuple):
    """An ended attempt.

    `start` is the time of the first line of task code, None if no code ran. `locality` is `off` for a reduce and for
    a map without input. `split_of` is the id of the task that was split, in the rows of both parts; the first part
    keeps that id.
    """

    job: str
    task: str
    attempt: str
    kind: str
    split_of: str
    node: NodeId
    rack: str
    locality: str
    speculative: bool
    assigned: float
    start: float | None
    end: float
    state: str
    reason: str
    offset: int
    length: int
    cpu_s: float
    read_local_bytes: int
    read_remote_bytes: int
    shuffle_bytes: int
    spill_bytes: int
    output_bytes: int
    shuffle_end: float | None
    sort_end: float | None


def attempt_row(attempt: Attempt) -> AttemptRow:
    """Return the row of an attempt that has just ended."""
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


class DecisionRow(NamedTuple):
    """An offer and its answer (launch, split, skip, reject, kill). `task` is empty if a whole job was skipped."""

    t: float
    node: NodeId
    job: str
    task: str
    kind: str
    answer: str
    reason: str


def decision_row(now_s: float, node: NodeId, task: Task, answer: str, reason: str) -> DecisionRow:
    """Return the row of a decision about a task."""
    stage = task.stage
    return make_row(DecisionRow, (now_s, node, stage.job.job, task.task, stage.label, answer, reason))


class JobRow(NamedTuple):
    """An ended job. `start` is the time of its first launch, None without any; `maps` counts both parts of a split
    map."""

    job: str
    name: str
    user: str
    queue: str
    app: str
    submit: float
    start: float | None
    finish: float
    deadline: float | None
    maps: int
    reduces: int
    input_bytes: int
    output_bytes: int
    state: str


def job_row(job: Job) -> JobRow:
    """Return the row of a job that has just ended."""
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
