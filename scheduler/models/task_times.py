"""Expected times of tasks, for policies that plan: the mean of the job's own tasks, else of similar jobs,
else an estimate from the size of the input."""

from __future__ import annotations

from schedbed.scheduler.view import AttemptView, JobView, View
from schedbed.tasks.specs import TaskKind

UNKNOWN_S = 1.0
"""Assumed seconds of a task without measurements. `_by_input` adds the time to read the input."""


def took_s(attempt: AttemptView) -> float:
    return max(0.0, attempt.end_s - attempt.assigned_s)


class MeanTimes:
    """The mean times of maps and of reduces of a group of jobs.

    The mean of the `wider` group is used until a task here has ended; it also receives all times added here.
    """

    __slots__ = ("_count", "_sum_s", "_wider")

    def __init__(self, wider: MeanTimes | None = None) -> None:
        self._wider = wider
        self._sum_s = dict.fromkeys(TaskKind, 0.0)
        self._count = dict.fromkeys(TaskKind, 0)

    def add(self, kind: TaskKind, took_s: float) -> None:
        """Add the time of an ended task, in seconds, to this group and to the wider group."""
        self._sum_s[kind] += took_s
        self._count[kind] += 1
        if self._wider is not None:
            self._wider.add(kind, took_s)

    def knows(self, kind: TaskKind) -> bool:
        return self._count[kind] > 0

    def mean_s(self, kind: TaskKind) -> float:
        """Return the mean time in seconds of tasks of that kind, or UNKNOWN_S if no time was added."""
        if self._count[kind]:
            return self._sum_s[kind] / self._count[kind]
        return UNKNOWN_S if self._wider is None else self._wider.mean_s(kind)

    def size_s(self, maps: int, reduces: int) -> float:
        """Return the size in slot seconds of a job with `maps` maps and `reduces` reduces, from the mean times."""
        return maps * self.mean_s(TaskKind.MAP) + reduces * self.mean_s(TaskKind.REDUCE)


class StageTimes:
    """The mean times of successful tasks, for each job and for each pair of user and job name."""

    def __init__(self) -> None:
        self._named: dict[tuple[str, str], MeanTimes] = {}
        self._jobs: dict[str, MeanTimes] = {}

    def ended(self, view: View, attempt: AttemptView) -> None:
        """Add the time of a successful attempt. Called from a policy's hook `ended`."""
        if attempt.state != "succeeded":
            return
        job = attempt.task.job
        times = self._jobs.get(job.job)
        if times is None:
            wider = self._named.setdefault((job.user, job.spec.name), MeanTimes())
            times = self._jobs[job.job] = MeanTimes(wider)
        times.add(attempt.task.kind, took_s(attempt))

    def finished(self, view: View, job: JobView) -> None:
        """Forget a job's own mean times. Called from a policy's hook `finished`."""
        self._jobs.pop(job.job, None)

    def task_s(self, view: View, job: JobView, kind: TaskKind) -> float:
        """Return a task's expected seconds: the job's mean, else that of user and job name, else by its input."""
        for times in (self._jobs.get(job.job), self._named.get((job.user, job.spec.name))):
            if times is not None and times.knows(kind):
                return times.mean_s(kind)
        return _by_input(view, job, kind)


def _by_input(view: View, job: JobView, kind: TaskKind) -> float:
    """Estimate a task: one second, plus its input at the disk rate of the cluster's first node."""
    node = next(iter(view.nodes.values()), None)
    if node is None:
        return UNKNOWN_S
    tasks = max(1, job.stage(kind).total)
    return UNKNOWN_S + job.spec.input_bytes / tasks / max(1.0, node.spec.disk_bps)
