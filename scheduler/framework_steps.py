"""The work that a framework does for a job before and after its tasks: initialization, set-up, fetch of the job's
files, clean-up.

The scheduler core has no such steps: a job is submitted to the core when its set-up task has been reported. A
set-up task starts with the heartbeat of a node with a free map slot, and does not occupy the slot. Live runs and
the simulator take the steps from here.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable

from schedbed.scheduler.app_masters import AppMasters, JobMaster
from schedbed.scheduler.core.rows import AttemptRow, Effect, JobEnded, JobRow, MasterStarts, NodeLost
from schedbed.scheduler.framework import Framework
from schedbed.tasks.specs import JobSpec, NodeId


class FrameworkSteps:
    """The framework's work before tasks: initialization, set-up tasks, AMs' heartbeats, and fetches of job files.

    `later(at_s, number)` has `masters.on_allocate` called with that number at that time. `wake(at_s, node)` lets the
    node send a heartbeat at that time. A job is held until its set-up task is done, and then submitted.
    """

    def __init__(
        self,
        master: JobMaster,
        framework: Framework,
        later: Callable[[float, int], None],
        wake: Callable[[float, NodeId], None],
    ) -> None:
        self._master, self._framework, self._wake = master, framework, wake
        self.masters = AppMasters(later, master, framework, wake)
        self._polled = 0  # Number of the last poll.
        self._held: set[str] = set()  # Jobs that were taken and neither submitted nor killed yet.
        self._waiting: deque[JobSpec] = deque()  # Jobs that wait for a poll.
        # Jobs with the times at which they are initialized.
        self._initialized: deque[tuple[float, JobSpec]] = deque()
        # By node: the jobs whose set-up task runs there, with the ends of these tasks.
        self._set_up: dict[NodeId, list[tuple[float, JobSpec]]] = {}
        self._unstarted: dict[str, str] = {}  # Users by job, for jobs without a started task.
        self._files_ready_s: dict[str, dict[NodeId, float]] = {}  # by job and node

    @property
    def holds_jobs(self) -> bool:
        return bool(self._held)

    def take(self, due: Iterable[JobSpec]) -> None:
        """Begin to initialize due jobs. Those that are held already are not taken again."""
        for job in due:
            if job.job in self._held:
                continue
            self._held.add(job.job)
            if self._framework.init_poll_s:
                self._waiting.append(job)
            else:
                self._initialized.append((job.submit_s + self._framework.init_s, job))

    def heartbeat(self, now_s: float, node: NodeId) -> int:
        """Submit jobs set up on the node, return their number, and start a waiting set-up task."""
        if self._waiting:
            self._poll(now_s)
        ready = self._reported(now_s, node)
        while self._initialized and self._initialized[0][0] <= now_s:
            if not self._framework.setup_s or self._framework.master is not None:
                ready.append(self._initialized.popleft())
                continue
            if self._has_room(node):
                self._start_set_up(now_s, node, self._initialized.popleft()[1])
            break
        ready = [entry for entry in ready if entry[1].job in self._held]  # Others were killed.
        for registered_s, job in ready:
            self._held.remove(job.job)
            self._master.do(now_s, "submit", job)
            self.masters.submitted(now_s, job, registered_s)
        return len(ready)

    def follow(self, now_s: float, effect: Effect) -> None:
        """Let an AM begin or leave, forget an ended job, and set up jobs elsewhere that a lost node has set up."""
        match effect:
            case MasterStarts():
                self.masters.starts(now_s, effect)
            case JobEnded():
                self.masters.ended(now_s, effect.job)
                self._files_ready_s.pop(effect.job, None)
                self._held.discard(effect.job)
            case NodeLost():
                for _, job in self._set_up.pop(effect.node, ()):
                    self._initialized.appendleft((now_s, job))
            case _:
                pass

    def _reported(self, now_s: float, node: NodeId) -> list[tuple[float, JobSpec]]:
        """Remove and return the jobs whose set-up task has ended on the node, with the ends of these tasks."""
        tasks = self._set_up.get(node, ())
        left = [entry for entry in tasks if entry[0] > now_s]
        if left:
            self._set_up[node] = left
        elif tasks:
            del self._set_up[node]
        return [entry for entry in tasks if entry[0] <= now_s]

    def _has_room(self, node: NodeId) -> bool:
        known = self._master.ledger.nodes.get(node)
        return known is not None and known.free_maps > len(self._set_up.get(node, ()))

    def _start_set_up(self, now_s: float, node: NodeId, job: JobSpec) -> None:
        end_s = now_s + self._localize_s(now_s, job.job, node) + self._framework.setup_s
        self._set_up.setdefault(node, []).append((end_s, job))
        if self._framework.out_of_band:
            self._wake(end_s, node)

    def start_s(self, now_s: float, job: str, node: NodeId, launch_s: float = 0.0) -> float:
        """Return the seconds from an attempt's launch until its node has started it, with the job's files.

        `launch_s` is the node's own latency. With AMs, the job's AM starts the attempt at its next heartbeat, since
        it has not heard of the container before.
        """
        if not self._framework.am_heartbeat_s:
            return launch_s + self._localize_s(now_s, job, node)
        from_s, needs_files = self.masters.starts_s(now_s, job)
        if not needs_files:
            return launch_s
        return from_s - now_s + self._localize_s(from_s, job, node)

    def _localize_s(self, now_s: float, job: str, node: NodeId) -> float:
        """Return the seconds until the node has the job's files; the first call starts the fetch."""
        ready = self._files_ready_s.setdefault(job, {})
        return max(0.0, ready.setdefault(node, now_s + self._framework.localize_s) - now_s)

    def _poll(self, now_s: float) -> None:
        """Initialize waiting jobs if a poll was due, up to `init_jobs` unstarted ones of each user.

        The first poll is one interval after the run's start.
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


class CleanUps:
    """Adds the clean-up to the ends of jobs. `last_s` is the latest end so far.

    With AMs, a job that succeeds ends with its last attempt, whenever a node reports that.
    """

    def __init__(self, framework: Framework, heartbeat_s: float) -> None:
        self._cleanup_s = framework.cleanup_takes_s(heartbeat_s)
        self._has_masters = framework.am_heartbeat_s > 0.0
        self._ends_s: dict[str, float] = {}  # of each job with an AM: its last attempt that succeeded
        self.last_s = 0.0

    def note(self, row: AttemptRow) -> None:
        """Note the end of an attempt that succeeded, if its job has an AM."""
        if self._has_masters and row.state == "succeeded":
            self._ends_s[row.job] = max(row.end, self._ends_s.get(row.job, 0.0))

    def cleaned(self, row: JobRow) -> JobRow:
        """Return the row with the time of the clean-up task added to the job's end."""
        end_s = self._ends_s.pop(row.job, row.finish) if row.state == "succeeded" else row.finish
        row = row._replace(finish=end_s + self._cleanup_s)
        self.last_s = max(self.last_s, row.finish)
        return row
