"""The life cycles of jobs, tasks and attempts as tables of the allowed transitions."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, TypeVar


class JobState(StrEnum):
    """The states of a job. The jobs table shows the final ones."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    KILLED = "killed"


class TaskState(StrEnum):
    """The states of a task. COMMITTING: the driver has not yet put the output into place."""

    UNSTARTED = "unstarted"
    RUNNING = "running"
    COMMITTING = "committing"
    DONE = "done"


class AttemptState(StrEnum):
    """The states of an attempt. ASSIGNED: launched in a reply, not yet reported by the node. KILLING: ordered to
    stop."""

    ASSIGNED = "assigned"
    RUNNING = "running"
    KILLING = "killing"
    COMMITTING = "committing"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    KILLED = "killed"
    LOST = "lost"


# As module constants, since a member's look-up through its class takes a simulation's time.
JOB_RUNNING, JOB_SUCCEEDED = JobState.RUNNING, JobState.SUCCEEDED
JOB_FAILED, JOB_KILLED = JobState.FAILED, JobState.KILLED
TASK_UNSTARTED, TASK_RUNNING = TaskState.UNSTARTED, TaskState.RUNNING
TASK_COMMITTING, TASK_DONE = TaskState.COMMITTING, TaskState.DONE
ASSIGNED, RUNNING, KILLING = AttemptState.ASSIGNED, AttemptState.RUNNING, AttemptState.KILLING
COMMITTING, SUCCEEDED = AttemptState.COMMITTING, AttemptState.SUCCEEDED
FAILED, KILLED, LOST = AttemptState.FAILED, AttemptState.KILLED, AttemptState.LOST

_ENDS = frozenset({AttemptState.SUCCEEDED, AttemptState.FAILED, AttemptState.KILLED, AttemptState.LOST})

JOBS: dict[JobState, frozenset[JobState]] = {
    JobState.RUNNING: frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.KILLED}),
    JobState.SUCCEEDED: frozenset(),
    JobState.FAILED: frozenset(),
    JobState.KILLED: frozenset(),
}
"""From each state of a job, those that may follow."""

TASKS: dict[TaskState, frozenset[TaskState]] = {
    TaskState.UNSTARTED: frozenset({TaskState.RUNNING}),
    TaskState.RUNNING: frozenset({TaskState.UNSTARTED, TaskState.COMMITTING, TaskState.DONE}),
    TaskState.COMMITTING: frozenset({TaskState.UNSTARTED, TaskState.DONE}),
    TaskState.DONE: frozenset({TaskState.UNSTARTED}),  # a map's output dies with its node
}
"""From each state of a task, those that may follow."""

ATTEMPTS: dict[AttemptState, frozenset[AttemptState]] = {
    AttemptState.ASSIGNED: _ENDS | {AttemptState.RUNNING, AttemptState.KILLING, AttemptState.COMMITTING},
    AttemptState.RUNNING: _ENDS | {AttemptState.KILLING, AttemptState.COMMITTING},
    # It may succeed before the kill arrives; that is a success like any other.
    AttemptState.KILLING: _ENDS | {AttemptState.COMMITTING},
    AttemptState.COMMITTING: frozenset({AttemptState.SUCCEEDED, AttemptState.FAILED, AttemptState.KILLED}),
    AttemptState.SUCCEEDED: frozenset(),
    AttemptState.FAILED: frozenset(),
    AttemptState.KILLED: frozenset(),
    AttemptState.LOST: frozenset(),
}
"""From each state of an attempt, those that may follow."""

# By class: members of different classes with one spelling are equal as dictionary keys.
_TABLES: dict[type[StrEnum], dict[Any, frozenset[Any]]] = {
    JobState: JOBS,
    TaskState: TASKS,
    AttemptState: ATTEMPTS,
}

_State = TypeVar("_State", JobState, TaskState, AttemptState)


class BadTransition(Exception):
    """A transition that the tables do not allow: a bug in the core."""


def step(who: str, old: _State, new: _State) -> _State:
    """Return `new` if it may follow `old`, else raise BadTransition. `who` is named in the message."""
    if new not in _TABLES[type(old)][old]:
        raise BadTransition(f"{who}: {old} -> {new} is not allowed")
    return new
