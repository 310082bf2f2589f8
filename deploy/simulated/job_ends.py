"""A sink that keeps nothing but when jobs ended, for simulations whose tables nobody reads."""

from __future__ import annotations

from schedbed.scheduler.core.records import NoSink
from schedbed.scheduler.core.rows import JobRow


class JobEnds(NoSink):
    """When each job that succeeded ended, in seconds since the run's start."""

    def __init__(self) -> None:
        self.finish_s: dict[str, float] = {}

    def job(self, row: JobRow) -> None:
        """Implement `Sink`."""
        if row.state == "succeeded":
            self.finish_s[row.job] = row.finish

    def heartbeat(self, row: tuple[object, ...]) -> None:
        """Keep nothing."""

    def block(self, row: tuple[object, ...]) -> None:
        """Keep nothing."""

    def fault(self, row: tuple[object, ...]) -> None:
        """Keep nothing."""
