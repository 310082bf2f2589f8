"""The calls that the driver of a run, which is the process of the command, can make to the JobTracker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from schedbed.cluster.masters import JobTrackerDoor
from schedbed.scheduler.driver import Plan


class DriverDoor(JobTrackerDoor, Protocol):
    """The driver's calls to the JobTracker, and those of TaskTrackers. Each may raise MasterGone."""

    async def start(self, plan: Plan | None = None) -> None:
        """Start the run with a plan, or continue it after a restart without one."""
        ...

    async def submit(self, plan: Plan) -> dict[str, float]:
        """Add jobs during the run. Return their submit times since the run's start."""
        ...

    async def kill(self, jobs: Sequence[str] | None, reason: str) -> None:
        """Kill the jobs with the ids `jobs`, or all jobs if `jobs` is None. `reason` is stored with each job."""
        ...

    async def poll(self, cursors: Mapping[str, int]) -> dict[str, Any]:
        """Return status, rows after `cursors`, whether all jobs have ended, and an error that ended the run."""
        ...
