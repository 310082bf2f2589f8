"""A sink that keeps only the times of job ends, for simulations with tables that no view reads."""

from __future__ import annotations

from schedbed.scheduler.core.records import NoSink
from schedbed.scheduler.core.rows import JobRow


class JobEnds(NoSink):
    """The end time of each job that succeeded, in seconds since the run's start."""

    def __init__(self) -> None:
        self.finish_s: dict[str, float] = {}

    def job(self, row: JobRow) -> None:
        """Implement `Sink`: note the end of a job that succeeded."""
        if row.state == "succeeded":
            self.finish_s[row.job] = row.finish

    def heartbeat(self, row: tuple[object, ...]) -> None:
        """Drop the row."""

    def block(self, row: tuple[object, ...]) -> None:
        """Drop the row."""

    def fault(self, row: tuple[object, ...]) -> None:
        """Drop the row."""
