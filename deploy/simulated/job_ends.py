"""A receiver of a simulation's rows that keeps only the end times of jobs and ignores all other rows."""

from __future__ import annotations

from schedbed.scheduler.core.records import NoSink
from schedbed.scheduler.core.rows import JobRow


class JobEnds(NoSink):
    """A receiver of a simulation's rows that keeps only the end time of each successful job.

    `finish_s` is a dictionary from job id to end time in seconds since the run's start.
    """

    def __init__(self) -> None:
        self.finish_s: dict[str, float] = {}

    def job(self, row: JobRow) -> None:
        """Implement `Sink.job`: record the end time of a job that succeeded."""
        if row.state == "succeeded":
            self.finish_s[row.job] = row.finish

    def heartbeat(self, row: tuple[object, ...]) -> None:
        """Implement `Rows.heartbeat`: ignore the row."""

    def block(self, row: tuple[object, ...]) -> None:
        """Implement `Rows.block`: ignore the row."""

    def fault(self, row: tuple[object, ...]) -> None:
        """Implement `Rows.fault`: ignore the row."""
