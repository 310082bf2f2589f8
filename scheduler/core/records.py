"""What the core hands out: rows of the tables, and effects."""

from __future__ import annotations

from typing import Protocol

from schedbed.scheduler.core.rows import AttemptRow, DecisionRow, JobRow
from schedbed.tasks.specs import NodeId
from schedbed.tasks.values import value


class Sink(Protocol):
    """Where rows go, in the order of events."""

    def decision(self, row: DecisionRow) -> None:
        """An offer was answered."""

    def attempt(self, row: AttemptRow) -> None:
        """An attempt ended."""

    def job(self, row: JobRow) -> None:
        """A job ended."""


class NoSink:
    """Forgets everything: for replaying a journal whose rows are written already."""

    def decision(self, row: DecisionRow) -> None:
        """Nothing."""

    def attempt(self, row: AttemptRow) -> None:
        """Nothing."""

    def job(self, row: JobRow) -> None:
        """Nothing."""


@value
class Commit:
    """Put this attempt's output into place, then call `Core.committed` or `Core.commit_failed`."""

    job: str
    task: str
    attempt: str
    index: int


@value
class Discard:
    """What this attempt wrote aside is not wanted; there may be nothing."""

    job: str
    attempt: str


@value
class NodeLost:
    """The node fell silent or was declared lost."""

    node: NodeId


@value
class JobEnded:
    """The job is over: `state` is succeeded, failed or killed."""

    job: str
    state: str
    reason: str


Effect = Commit | Discard | NodeLost | JobEnded
