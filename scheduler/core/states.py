"""The states of jobs, tasks and attempts, with tables of the allowed transitions."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, TypeVar


class JobState(StrEnum):
    """The states of a job. The jobs table contains only the final states: succeeded, failed, killed, timeout.

    TIMEOUT: ended by the policy since the job ran for longer than requested.
    """

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    KILLED = "killed"
    TIMEOUT = "timeout"


class TaskState(StrEnum):
    """The states of a task. In COMMITTING, an attempt has succeeded, but its output file is not in place yet."""

    UNSTARTED = "unstarted"
    RUNNING = "running"
    COMMITTING = "committing"
    DONE = "done"


class AttemptState(StrEnum):
    """The states of an attempt. ASSIGNED: launched in a reply, and not reported yet.

    KILLING: ordered to stop. COMMITTING: succeeded, but the output is not in place. LOST: the node is lost,
    or no longer has it.
    """

    ASSIGNED = "assigned"
    RUNNING = "running"
    KILLING = "killing"
    COMMITTING = "committing"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    KILLED = "killed"
    LOST = "lost"


# Module constants, because looking up members through their class would slow down simulations.
JOB_RUNNING, JOB_SUCCEEDED = JobState.RUNNING, JobState.SUCCEEDED
JOB_FAILED, JOB_KILLED = JobState.FAILED, JobState.KILLED
AS_PLANNED = (JobState.SUCCEEDED, JobState.TIMEOUT)
"""The final states of jobs after which a run has not failed: a policy may end jobs by its rules."""
TASK_UNSTARTED, TASK_RUNNING = TaskState.UNSTARTED, TaskState.RUNNING
TASK_COMMITTING, TASK_DONE = TaskState.COMMITTING, TaskState.DONE
ASSIGNED, RUNNING, KILLING = AttemptState.ASSIGNED, AttemptState.RUNNING, AttemptState.KILLING
COMMITTING, SUCCEEDED = AttemptState.COMMITTING, AttemptState.SUCCEEDED
FAILED, KILLED, LOST = AttemptState.FAILED, AttemptState.KILLED, AttemptState.LOST

_ENDS = frozenset({AttemptState.SUCCEEDED, AttemptState.FAILED, AttemptState.KILLED, AttemptState.LOST})

JOBS: dict[JobState, frozenset[JobState]] = {
    JobState.RUNNING: frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.KILLED, JobState.TIMEOUT}),
    JobState.SUCCEEDED: frozenset(),
    JobState.FAILED: frozenset(),
    JobState.KILLED: frozenset(),
    JobState.TIMEOUT: frozenset(),
}
"""The states of a job that may follow each state."""

TASKS: dict[TaskState, frozenset[TaskState]] = {
    TaskState.UNSTARTED: frozenset({TaskState.RUNNING}),
    TaskState.RUNNING: frozenset({TaskState.UNSTARTED, TaskState.COMMITTING, TaskState.DONE}),
    TaskState.COMMITTING: frozenset({TaskState.UNSTARTED, TaskState.DONE}),
    TaskState.DONE: frozenset({TaskState.UNSTARTED}),  # A map's output is lost with its node.
}
"""The states of a task that may follow each state."""

ATTEMPTS: dict[AttemptState, frozenset[AttemptState]] = {
    AttemptState.ASSIGNED: _ENDS | {AttemptState.RUNNING, AttemptState.KILLING, AttemptState.COMMITTING},
    AttemptState.RUNNING: _ENDS | {AttemptState.KILLING, AttemptState.COMMITTING},
    # The attempt may succeed before the kill arrives, which counts as a normal success.
    AttemptState.KILLING: _ENDS | {AttemptState.COMMITTING},
    AttemptState.COMMITTING: frozenset({AttemptState.SUCCEEDED, AttemptState.FAILED, AttemptState.KILLED}),
    AttemptState.SUCCEEDED: frozenset(),
    AttemptState.FAILED: frozenset(),
    AttemptState.KILLED: frozenset(),
    AttemptState.LOST: frozenset(),
}
"""The states of an attempt that may follow each state."""

# One table per class, because equal strings of different classes are equal dictionary keys.
_TABLES: dict[type[StrEnum], dict[Any, frozenset[Any]]] = {
    JobState: JOBS,
    TaskState: TASKS,
    AttemptState: ATTEMPTS,
}

_State = TypeVar("_State", JobState, TaskState, AttemptState)


class BadTransition(Exception):
    """The error raised for a state change that is not an allowed transition, which is a bug in the core."""


def step(who: str, old: _State, new: _State) -> _State:
    """Return `new` if the transition is allowed, or raise BadTransition."""
    if new not in _TABLES[type(old)][old]:
        raise BadTransition(f"{who}: {old} -> {new} is not allowed")
    return new


# The counters of the tasks of one user or one queue, which the core keeps up to date.


class Tally:
    """Running and unstarted tasks of one user or queue, summed over jobs, for maps or for reduces."""

    __slots__ = ("killing", "name", "running", "unstarted")

    def __init__(self, name: str) -> None:
        self.name = name
        self.running = 0
        self.killing = 0  # The running attempts that were ordered to stop.
        self.unstarted = 0
