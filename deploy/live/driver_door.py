"""The calls that the driver of a run, which is the process of the command, can make to the JobTracker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from schedbed.cluster.masters import JobTrackerDoor
from schedbed.scheduler.driver import Plan


class DriverDoor(JobTrackerDoor, Protocol):
    """The interface of the calls that the driver (the process of the command) makes to the JobTracker.

    The base class `JobTrackerDoor` adds the calls of TaskTrackers. Each call may raise MasterGone, which
    means that the JobTracker does not answer.
    """

    async def start(self, plan: Plan | None = None) -> None:
        """Start the run with the jobs and input files in `plan`.

        If `plan` is None, continue the run after a restart of the JobTracker.
        """
        ...

    async def submit(self, plan: Plan) -> dict[str, float]:
        """Add the jobs and files in `plan` during the run.

        Return a dictionary from job id to submit time, in seconds since the run's start.
        """
        ...

    async def kill(self, jobs: Sequence[str] | None, reason: str) -> None:
        """Kill the jobs with the ids `jobs`, or all jobs if `jobs` is None. `reason` is stored with each
        job.
        """
        ...

    async def poll(self, cursors: Mapping[str, int]) -> dict[str, Any]:
        """Return the JobTracker's status, new rows of the tables, and whether all jobs have ended.

        `cursors` maps each table to the number of rows that the caller already has. The result also contains
        the error that ended the run, if there is one.
        """
        ...
