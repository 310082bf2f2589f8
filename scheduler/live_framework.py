"""A framework's steps in a live run: they delay the submission, the attempts and the known ends of real jobs."""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import takewhile

from schedbed.cluster.messages import Launch
from schedbed.cluster.virtual.node_model import TaskCost
from schedbed.scheduler.core.rows import Effect, MasterStarts
from schedbed.scheduler.driver import Driver
from schedbed.scheduler.framework import Framework
from schedbed.scheduler.framework_steps import FrameworkSteps
from schedbed.tasks.specs import NodeId

SET_UP = -1
"""In place of an AM's number: a set-up task has ended."""


class LiveFramework:
    """The framework's steps of a live run, and their next times. Times are seconds since the run's start.

    After a restart of the JobTracker, the AMs of jobs that have not ended begin again at that time, and so do set-ups.
    It differs from the simulator in one way: with `out_of_band`, the end of a set-up task triggers no heartbeat of the
    node, so that the job's first tasks come with the next regular one.
    """

    def __init__(self, driver: Driver, framework: Framework) -> None:
        self._driver, self._framework = driver, framework
        self._steps = FrameworkSteps(driver, framework, self._later, self._wake)
        self._due: list[tuple[float, int, NodeId]] = []

    def _later(self, at_s: float, number: int) -> None:
        heappush(self._due, (at_s, number, ""))

    def _wake(self, at_s: float, node: NodeId) -> None:
        heappush(self._due, (at_s, SET_UP, node))

    def continue_jobs(self, now_s: float) -> None:
        """Let the AMs of all jobs that have not ended begin, at a restart."""
        for job in self._driver.ledger.jobs.values():
            if job.master is None:
                self._steps.masters.submitted(now_s, job.spec, now_s)
            for attempt in () if job.master is None else job.master.tasks[0].attempts:
                self._steps.masters.starts(now_s, MasterStarts(job.job, attempt.attempt))

    def submit_due(self, now_s: float) -> None:
        """Begin to initialize due jobs. They stay among the waiting ones until they are submitted."""
        self._driver.change_due(now_s)
        self._steps.take(takewhile(lambda job: job.submit_s <= now_s, self._driver.waiting))

    def heartbeat(self, now_s: float, node: NodeId) -> None:
        """Submit jobs whose set-up the node reports, and start the next set-up task there."""
        self._steps.heartbeat(now_s, node)

    def follow(self, now_s: float, effect: Effect) -> None:
        """Let the framework's steps follow an effect of the core."""
        self._steps.follow(now_s, effect)
        if isinstance(effect, MasterStarts):
            self._driver.carried_out(effect)

    def advance(self, now_s: float) -> None:
        """Process the heartbeats of AMs and the ends of set-up tasks that are due."""
        while self._due and self._due[0][0] <= now_s:
            _, number, node = heappop(self._due)
            if number == SET_UP:
                self._steps.heartbeat(now_s, node)
            else:
                self._steps.masters.on_allocate(now_s, number)

    def wait_s(self, now_s: float, launch: Launch, node: NodeId) -> float:
        """Return how long an attempt waits on the node: for the AM's heartbeat, the job's files, its JVM and polls."""
        job = self._driver.jobs[launch.job]
        start_s = 0.0 if job.uber else self._framework.start_s(launch.kind, TaskCost())
        return self._steps.start_s(now_s, launch.job, node) + start_s
