"""The output of the core: rows of the result tables, and effects (actions for the driver to carry out)."""

from __future__ import annotations

from typing import Protocol

from schedbed.scheduler.core.rows import AttemptRow, DecisionRow, JobRow
from schedbed.tasks.specs import NodeId
from schedbed.tasks.values import value


class Sink(Protocol):
    """A receiver of the core's rows, which arrive in the order of events."""

    def decision(self, row: DecisionRow) -> None:
        """Receive the row of an offer and its answer."""

    def attempt(self, row: AttemptRow) -> None:
        """Receive the row of an attempt that ended."""

    def job(self, row: JobRow) -> None:
        """Receive the row of a job that ended."""


class NoSink:
    """A sink that drops all rows, to replay a journal whose rows are already written."""

    def decision(self, row: DecisionRow) -> None:
        """Drop the row of a decision."""

    def attempt(self, row: AttemptRow) -> None:
        """Drop the row of an attempt."""

    def job(self, row: JobRow) -> None:
        """Drop the row of a job."""


@value
class Commit:
    """Effect: move the attempt's output into place, then call `Core.committed` or `Core.commit_failed`."""

    job: str
    task: str
    attempt: str
    index: int


@value
class Discard:
    """Effect: delete the files that the attempt wrote before its commit, if any."""

    job: str
    attempt: str


@value
class NodeLost:
    """Effect: a node was lost, because its heartbeats stopped or because it was declared lost."""

    node: NodeId


@value
class JobEnded:
    """Effect: a job ended.

    `state` is succeeded, failed or killed; `reason` is empty for a job that succeeded.
    """

    job: str
    state: str
    reason: str


Effect = Commit | Discard | NodeLost | JobEnded
