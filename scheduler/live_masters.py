"""ApplicationMasters (AMs) of MapReduce on YARN in a live run: the waits that they add to real attempts."""

from __future__ import annotations

from heapq import heappop, heappush

from schedbed.scheduler.app_masters import AppMasters
from schedbed.scheduler.core.rows import Effect, JobEnded, MasterStarts
from schedbed.scheduler.driver import Driver
from schedbed.scheduler.framework import Framework
from schedbed.tasks.specs import JobSpec, NodeId


class LiveMasters:
    """The AMs of a live run, and the times of their next heartbeats. Times are seconds since the run's start.

    After a restart of the JobTracker, the AMs of jobs that have not ended begin again at that time.
    """

    def __init__(self, driver: Driver, framework: Framework) -> None:
        self._driver, self._framework = driver, framework
        self._masters = AppMasters(self._later, driver, framework, _no_wake)
        self._due: list[tuple[float, int]] = []
        self._files_ready_s: dict[str, dict[NodeId, float]] = {}  # By job and node.

    def _later(self, at_s: float, number: int) -> None:
        heappush(self._due, (at_s, number))

    def continue_jobs(self, now_s: float) -> None:
        """Let the AMs of all jobs that have not ended begin, at a restart."""
        for job in self._driver.ledger.jobs.values():
            if job.master is None:
                self._masters.submitted(now_s, job.spec, now_s)
            for attempt in () if job.master is None else job.master.tasks[0].attempts:
                self._masters.starts(now_s, MasterStarts(job.job, attempt.attempt))

    def submitted(self, now_s: float, job: JobSpec) -> None:
        """Let the AM of a job begin that the scheduler has just learned of."""
        self._masters.submitted(now_s, job, job.submit_s + self._framework.init_s)

    def follow(self, now_s: float, effect: Effect) -> None:
        """Let an AM begin whose container was granted, or leave after its job."""
        match effect:
            case MasterStarts():
                self._masters.starts(now_s, effect)
                self._driver.carried_out(effect)
            case JobEnded():
                self._masters.ended(now_s, effect.job)
                self._files_ready_s.pop(effect.job, None)
            case _:
                pass

    def allocate(self, now_s: float) -> None:
        """Process the heartbeats of AMs that are due."""
        while self._due and self._due[0][0] <= now_s:
            _, number = heappop(self._due)
            self._masters.on_allocate(now_s, number)

    def wait_s(self, now_s: float, job: str, node: NodeId) -> float:
        """Return how long an attempt waits on the node: for the AM's heartbeat, the job's files, and its JVM."""
        from_s, needs_files = self._masters.starts_s(now_s, job)
        if not needs_files:
            return 0.0
        ready = self._files_ready_s.setdefault(job, {})
        ready_s = ready.setdefault(node, from_s + self._framework.localize_s)
        return max(from_s, ready_s) - now_s + self._framework.jvm_s


def _no_wake(now_s: float, node: NodeId) -> None:
    """Do nothing: the node's next regular heartbeat brings the order."""
