"""The interface of the JobTracker for the driver of a run: the calls of TaskTrackers, and control
of the run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from schedbed.cluster.masters import JobTrackerDoor
from schedbed.scheduler.driver import Plan


class DriverDoor(JobTrackerDoor, Protocol):
    """All calls that other processes can make to the JobTracker. Each call may raise MasterGone."""

    async def start(self, plan: Plan | None = None) -> None:
        """Start the run with its plan (jobs and files), or with None continue it after a restart."""
        ...

    async def submit(self, plan: Plan) -> dict[str, float]:
        """Add jobs during the run. Return their submit times in seconds since the run's start."""
        ...

    async def kill(self, jobs: Sequence[str] | None, reason: str) -> None:
        """Kill the jobs with these ids, or all jobs if None. `reason` is recorded."""
        ...

    async def poll(self, cursors: Mapping[str, int]) -> dict[str, Any]:
        """Return the status, the new rows of each table, whether all jobs have ended, and a fatal error if
        there is one.

        `cursors` has the number of rows that the caller already has, by table.
        """
        ...
