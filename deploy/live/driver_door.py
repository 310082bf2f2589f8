"""The JobTracker's calls for the driver of a run: those of TaskTrackers, and control of the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from schedbed.cluster.masters import JobTrackerDoor
from schedbed.scheduler.driver import Plan


class DriverDoor(JobTrackerDoor, Protocol):
    """All calls of the JobTracker for other processes. Each may raise MasterGone."""

    async def start(self, plan: Plan | None = None) -> None:
        """Start the run with its plan, or continue it after a restart (None)."""
        ...

    async def submit(self, plan: Plan) -> dict[str, float]:
        """Add jobs during the run. Return their submit times in seconds since the run's start."""
        ...

    async def kill(self, jobs: Sequence[str] | None, reason: str) -> None:
        """Kill these jobs, or all if None."""
        ...

    async def poll(self, cursors: Mapping[str, int]) -> dict[str, Any]:
        """Return the status, rows since the cursors, whether all jobs have ended, and a fatal error if any."""
        ...
