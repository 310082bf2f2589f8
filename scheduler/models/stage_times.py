"""How long a job's tasks take, for policies that plan: as measured of the job, else of its name, else by its input."""

from __future__ import annotations

from schedbed.scheduler.view import AttemptView, JobView, View
from schedbed.tasks.specs import TaskKind

UNKNOWN_S = 1.0
"""What a task takes beside its input when nothing says more."""


class Mean:
    """A mean that values are added to."""

    __slots__ = ("count", "sum_s")

    def __init__(self) -> None:
        self.count = 0
        self.sum_s = 0.0

    def add(self, seconds: float) -> None:
        """Add a value."""
        self.count += 1
        self.sum_s += seconds


class StageTimes:
    """Means of tasks that succeeded, from launch to end, by job and by user and name of job; kept in a policy."""

    def __init__(self) -> None:
        self._means: dict[tuple[str, ...], Mean] = {}

    def ended(self, view: View, attempt: AttemptView) -> None:
        """Learn from an attempt, as in `Hooks`."""
        if attempt.state != "succeeded":
            return
        job, kind = attempt.task.job, attempt.task.kind.value
        for key in ((kind, job.job), (kind, job.user, job.spec.name)):
            self._means.setdefault(key, Mean()).add(max(0.0, attempt.end_s - attempt.assigned_s))

    def finished(self, view: View, job: JobView) -> None:
        """Forget the job's own means, as in `Hooks`; those of its name stay."""
        for kind in TaskKind:
            self._means.pop((kind.value, job.job), None)

    def task_s(self, view: View, job: JobView, kind: TaskKind) -> float:
        """Return the seconds that a task of that kind of the job is expected to take."""
        for key in ((kind.value, job.job), (kind.value, job.user, job.spec.name)):
            mean = self._means.get(key)
            if mean is not None:
                return mean.sum_s / mean.count
        return _by_input(view, job, kind)


def _by_input(view: View, job: JobView, kind: TaskKind) -> float:
    """Return what reading the job's input takes on the first node, alone there, and a second."""
    node = next(iter(view.nodes.values()), None)
    if node is None:
        return UNKNOWN_S
    tasks = max(1, job.stage(kind).total)
    return UNKNOWN_S + job.spec.input_bytes / tasks / max(1.0, node.spec.disk_bps)
