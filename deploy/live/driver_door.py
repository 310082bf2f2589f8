"""The JobTracker's door as the driver of a run sees it: what TaskTrackers may ask, and the run itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from schedbed.cluster.masters import JobTrackerDoor
from schedbed.scheduler.driver import Plan


class DriverDoor(JobTrackerDoor, Protocol):
    """All of the JobTracker that other processes may ask; each call may raise MasterGone."""

    async def start(self, plan: Plan | None = None) -> None:
        """Begin the run with its plan, or go on with the run after a restart (None)."""
        ...

    async def submit(self, plan: Plan) -> dict[str, float]:
        """Add jobs while the run goes on; return their submit times in seconds since the run's start."""
        ...

    async def kill(self, jobs: Sequence[str] | None, reason: str) -> None:
        """End these jobs, or all."""
        ...

    async def poll(self, cursors: Mapping[str, int]) -> dict[str, Any]:
        """Return the status, rows since the cursors, whether all jobs have ended, and a fatal error if any."""
        ...
