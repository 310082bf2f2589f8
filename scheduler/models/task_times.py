"""Expected times of tasks for policies that plan: measured in the job, else in similar jobs, else estimated
from the size of the input."""

from __future__ import annotations

from schedbed.scheduler.view import AttemptView, JobView, View
from schedbed.tasks.specs import TaskKind

UNKNOWN_S = 1.0
"""Assumed seconds of a task without measurements. `_by_input` adds the time to read the input."""


def took_s(attempt: AttemptView) -> float:
    """Return the seconds from an attempt's launch to its end."""
    return max(0.0, attempt.end_s - attempt.assigned_s)


class MeanTimes:
    """Mean times of tasks by kind.

    Before the first task of a kind has ended, the mean of `wider` is used, which collects the times of a
    larger group of jobs. Times added here are also added to `wider`.
    """

    __slots__ = ("_count", "_sum_s", "_wider")

    def __init__(self, wider: MeanTimes | None = None) -> None:
        self._wider = wider
        self._sum_s = dict.fromkeys(TaskKind, 0.0)
        self._count = dict.fromkeys(TaskKind, 0)

    def add(self, kind: TaskKind, took_s: float) -> None:
        """Add the time of one ended task in seconds, also to `wider`."""
        self._sum_s[kind] += took_s
        self._count[kind] += 1
        if self._wider is not None:
            self._wider.add(kind, took_s)

    def knows(self, kind: TaskKind) -> bool:
        """Return whether a task of that kind has ended."""
        return self._count[kind] > 0

    def mean_s(self, kind: TaskKind) -> float:
        """Return the mean time of a task of that kind in seconds; UNKNOWN_S if none was measured."""
        if self._count[kind]:
            return self._sum_s[kind] / self._count[kind]
        return UNKNOWN_S if self._wider is None else self._wider.mean_s(kind)

    def size_s(self, maps: int, reduces: int) -> float:
        """Return the size of a job in slot seconds: its numbers of tasks times their mean times."""
        return maps * self.mean_s(TaskKind.MAP) + reduces * self.mean_s(TaskKind.REDUCE)


class StageTimes:
    """Mean times of successful tasks, for each job and for all jobs with the same user and job name."""

    def __init__(self) -> None:
        self._named: dict[tuple[str, str], MeanTimes] = {}
        self._jobs: dict[str, MeanTimes] = {}

    def ended(self, view: View, attempt: AttemptView) -> None:
        """Add the time of an attempt if it succeeded. A policy calls this method from its hook `ended`."""
        if attempt.state != "succeeded":
            return
        job = attempt.task.job
        times = self._jobs.get(job.job)
        if times is None:
            wider = self._named.setdefault((job.user, job.spec.name), MeanTimes())
            times = self._jobs[job.job] = MeanTimes(wider)
        times.add(attempt.task.kind, took_s(attempt))

    def finished(self, view: View, job: JobView) -> None:
        """Forget the job's own times, but keep those of its user and job name.

        A policy calls this method from its own hook `finished`.
        """
        self._jobs.pop(job.job, None)

    def task_s(self, view: View, job: JobView, kind: TaskKind) -> float:
        """Return the expected time in seconds of a task of that kind of the job."""
        for times in (self._jobs.get(job.job), self._named.get((job.user, job.spec.name))):
            if times is not None and times.knows(kind):
                return times.mean_s(kind)
        return _by_input(view, job, kind)


def _by_input(view: View, job: JobView, kind: TaskKind) -> float:
    """Return the seconds to read a task's input at the disk rate of the first node, plus one second."""
    node = next(iter(view.nodes.values()), None)
    if node is None:
        return UNKNOWN_S
    tasks = max(1, job.stage(kind).total)
    return UNKNOWN_S + job.spec.input_bytes / tasks / max(1.0, node.spec.disk_bps)
