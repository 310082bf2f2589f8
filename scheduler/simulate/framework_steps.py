"""Simulation of the work that a framework does for a job before and after its tasks: initialization, set-up,
fetch of the job's files, clean-up.

The scheduler core, which live runs also use, has no such steps: the simulator submits a job to the core when
its set-up task has been reported. A set-up task starts with the heartbeat of a node with a free map slot, and
does not occupy the slot.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import Protocol

from schedbed.scheduler.core.rows import JobRow
from schedbed.scheduler.simulate.event_queue import SET_UP, EventQueue
from schedbed.scheduler.simulate.framework import Framework
from schedbed.scheduler.simulate.setup import Rows
from schedbed.scheduler.simulate.tracked_nodes import SimNode
from schedbed.scheduler.simulate.virtual_jobtracker import Master
from schedbed.tasks.specs import JobSpec


class SteppedSimulation(Protocol):
    """The attributes of a simulation that `FrameworkSteps` reads."""

    queue: EventQueue
    master: Master


class FrameworkSteps:
    """The framework's work for jobs before their tasks: initialization, set-up tasks, and fetches of job
    files by nodes.

    An instance holds each job until the job's set-up task is done, and then submits the job to the core.
    """

    def __init__(self, simulation: SteppedSimulation, framework: Framework) -> None:
        self._queue = simulation.queue
        self._master = simulation.master
        self._framework = framework
        self._polled = 0  # Number of the last poll.
        self._held: dict[str, None] = {}  # Jobs that were taken and not submitted yet.
        self._waiting: deque[JobSpec] = deque()  # Jobs that wait for a poll.
        # Jobs with the times at which they are initialized.
        self._initialized: deque[tuple[float, JobSpec]] = deque()
        # By node: the jobs whose set-up task runs there, with the ends of these tasks.
        self._set_up: dict[int, list[tuple[float, JobSpec]]] = {}
        self._unstarted: dict[str, str] = {}  # Users by job, for jobs without a started task.
        self._files_ready_s: dict[str, dict[int, float]] = {}  # by job and node

    @property
    def holds_jobs(self) -> bool:
        """Return whether any job waits for its initialization or set-up."""
        return bool(self._held)

    def take_due(self, now_s: float) -> None:
        """Take the jobs whose submit time is at or before `now_s` from the JobTracker's list, and begin to
        initialize them.

        A restarted JobTracker lists jobs that were taken before; they are not taken again.
        """
        waiting = self._master.waiting
        while waiting and waiting[0].submit_s <= now_s:
            job = waiting.popleft()
            if job.job in self._held:
                continue
            self._held[job.job] = None
            if self._framework.init_poll_s:
                self._waiting.append(job)
            else:
                self._initialized.append((job.submit_s + self._framework.init_s, job))

    def heartbeat(self, now_s: float, node: SimNode) -> int:
        """Process a heartbeat of the node: submit the jobs whose set-up task has ended on the node, and start
        a waiting set-up task.

        Return the number of submitted jobs.
        """
        if self._waiting:
            self._poll(now_s)
        ready = self._reported(now_s, node)
        while self._initialized and self._initialized[0][0] <= now_s:
            if not self._framework.setup_s:
                ready.append(self._initialized.popleft()[1])
                continue
            if self._has_room(node):
                self._start_set_up(now_s, node, self._initialized.popleft()[1])
            break
        for job in ready:
            del self._held[job.job]
            self._master.do(now_s, "submit", job)
        return len(ready)

    def _reported(self, now_s: float, node: SimNode) -> list[JobSpec]:
        """Remove and return the jobs whose set-up task has ended on the node."""
        tasks = self._set_up.get(node.index, ())
        left = [entry for entry in tasks if entry[0] > now_s]
        if left:
            self._set_up[node.index] = left
        elif tasks:
            del self._set_up[node.index]
        return [job for end_s, job in tasks if end_s <= now_s]

    def _has_room(self, node: SimNode) -> bool:
        return node.held is not None and node.held.free_maps > len(self._set_up.get(node.index, ()))

    def _start_set_up(self, now_s: float, node: SimNode, job: JobSpec) -> None:
        end_s = now_s + self.localize_s(now_s, job.job, node) + self._framework.setup_s
        self._set_up.setdefault(node.index, []).append((end_s, job))
        if self._framework.out_of_band:
            self._queue.push(end_s, SET_UP, node.index)

    def localize_s(self, now_s: float, job: str, node: SimNode) -> float:
        """Return the seconds until the node has fetched the job's files.

        The first call for a job and node starts the fetch.
        """
        ready = self._files_ready_s.setdefault(job, {})
        return max(0.0, ready.setdefault(node.index, now_s + self._framework.localize_s) - now_s)

    def _poll(self, now_s: float) -> None:
        """Initialize waiting jobs if a poll of the framework was due since the last call.

        At each poll, at most `init_jobs` jobs of a user may be initialized and not started. The first poll is
        one interval after the run's start.
        """
        number = int(now_s / self._framework.init_poll_s)
        if number == self._polled:
            return
        self._polled = number
        poll_s = number * self._framework.init_poll_s
        most = self._framework.init_jobs
        self._unstarted = {job: user for job, user in self._unstarted.items() if not self._started(job)}
        users = Counter(self._unstarted.values())
        still: deque[JobSpec] = deque()
        for job in self._waiting:
            if job.submit_s > poll_s or (most and users[job.user] >= most):
                still.append(job)
                continue
            users[job.user] += 1
            self._unstarted[job.job] = job.user
            self._initialized.append((poll_s + self._framework.init_s, job))
        self._waiting = still

    def _started(self, job: str) -> bool:
        """Return whether a task of the job with the id `job` has started. True also if the job has ended."""
        ledger = self._master.ledger
        known = ledger.jobs.get(job)
        if known is None:
            return job in ledger.used_ids
        return known.maps.unstarted < known.maps.total


class CleanedRows:
    """A receiver of rows that adds the time of the clean-up task to the end of each job, and passes all rows
    on.

    `last_s` is the end of the last clean-up task, in seconds since the run's start.
    """

    def __init__(self, rows: Rows, cleanup_s: float) -> None:
        self._cleanup_s = cleanup_s
        self._rows = rows
        self.last_s = 0.0
        self.decision = rows.decision
        self.attempt = rows.attempt
        self.heartbeat = rows.heartbeat
        self.block = rows.block
        self.fault = rows.fault

    def job(self, row: JobRow) -> None:
        """Add the time of the clean-up task to the job's end in the row, and pass the row on."""
        if row.finish is not None:
            row = row._replace(finish=row.finish + self._cleanup_s)
            self.last_s = max(self.last_s, row.finish)
        self._rows.job(row)
