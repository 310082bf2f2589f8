"""The life cycles of jobs, tasks and attempts as tables; everything that a transition may be is in this file."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, TypeVar


class JobState(StrEnum):
    """A job's life. The ended states are what the jobs table says."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    KILLED = "killed"


class TaskState(StrEnum):
    """A task's life. COMMITTING waits for the driver to put the output into place."""

    UNSTARTED = "unstarted"
    RUNNING = "running"
    COMMITTING = "committing"
    DONE = "done"


class AttemptState(StrEnum):
    """An attempt's life: ASSIGNED is promised in a reply but not yet seen, KILLING was told to stop."""

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
    """A bug in the core: somebody took a step that the tables do not have."""


def step(who: str, old: _State, new: _State) -> _State:
    """`new`, when it may follow `old`; raises BadTransition otherwise. `who` is for the message."""
    if new not in _TABLES[type(old)][old]:
        raise BadTransition(f"{who}: {old} -> {new} is not allowed")
    return new
