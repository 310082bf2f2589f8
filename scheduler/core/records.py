"""The output of the core: rows of the result tables, and effects, which are actions for the driver."""

from __future__ import annotations

from typing import Protocol

from schedbed.scheduler.core.rows import AttemptRow, DecisionRow, JobRow
from schedbed.tasks.specs import NodeId
from schedbed.tasks.values import value


class Sink(Protocol):
    """The protocol of a receiver of table rows from the core. Rows arrive in the order of events."""

    def decision(self, row: DecisionRow) -> None:
        """Receive a row of the decisions table, which records an offered slot and the answer to the offer."""

    def attempt(self, row: AttemptRow) -> None:
        """Receive the row of an attempt that ended."""

    def job(self, row: JobRow) -> None:
        """Receive the row of a job that ended."""


class NoSink:
    """A sink that drops all rows. It is used to replay a journal whose rows were written before."""

    def decision(self, row: DecisionRow) -> None:
        """Drop the row of a decision."""

    def attempt(self, row: AttemptRow) -> None:
        """Drop the row of an attempt."""

    def job(self, row: JobRow) -> None:
        """Drop the row of a job."""


@value
class Commit:
    """An effect: the driver must move the attempt's output to the final path and report the result.

    The driver reports the result with `Core.committed` or `Core.commit_failed`.
    """

    job: str
    task: str
    attempt: str
    index: int


@value
class Discard:
    """An effect: the driver must delete the files that the attempt wrote before a commit, if any."""

    job: str
    attempt: str


@value
class NodeLost:
    """An effect: the driver must tell the NameNode that the node is lost."""

    node: NodeId


@value
class JobEnded:
    """An effect: a job has ended, and the driver must delete the job's uncommitted output files.

    `state` is succeeded, failed or killed. `reason` is empty for a job that succeeded.
    """

    job: str
    state: str
    reason: str


Effect = Commit | Discard | NodeLost | JobEnded
