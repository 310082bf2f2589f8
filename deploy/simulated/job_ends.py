"""A sink that keeps only the end times of jobs, for simulations whose tables are not needed."""

from __future__ import annotations

from schedbed.scheduler.core.records import NoSink
from schedbed.scheduler.core.rows import JobRow


class JobEnds(NoSink):
    """A sink that keeps the end time of each job that succeeded, in seconds since the run's start."""

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
