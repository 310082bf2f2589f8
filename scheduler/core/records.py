"""The core's output: rows of the tables, and effects."""

from __future__ import annotations

from typing import Protocol

from schedbed.scheduler.core.rows import AttemptRow, DecisionRow, JobRow
from schedbed.tasks.specs import NodeId
from schedbed.tasks.values import value


class Sink(Protocol):
    """A receiver of rows in the order of events."""

    def decision(self, row: DecisionRow) -> None:
        """Take the row of an offer and its answer."""

    def attempt(self, row: AttemptRow) -> None:
        """Take the row of an attempt that ended."""

    def job(self, row: JobRow) -> None:
        """Take the row of a job that ended."""


class NoSink:
    """A sink that drops all rows, for replaying a journal whose rows are already written."""

    def decision(self, row: DecisionRow) -> None:
        """Drop the row."""

    def attempt(self, row: AttemptRow) -> None:
        """Drop the row."""

    def job(self, row: JobRow) -> None:
        """Drop the row."""


@value
class Commit:
    """Effect: put the attempt's output into place, then call `Core.committed` or `Core.commit_failed`."""

    job: str
    task: str
    attempt: str
    index: int


@value
class Discard:
    """Effect: delete what the attempt wrote before the commit, if anything."""

    job: str
    attempt: str


@value
class NodeLost:
    """Effect: the node fell silent or was declared lost."""

    node: NodeId


@value
class JobEnded:
    """Effect: the job ended; `state` is succeeded, failed or killed."""

    job: str
    state: str
    reason: str


Effect = Commit | Discard | NodeLost | JobEnded
