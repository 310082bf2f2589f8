"""The order axis FIFO: sorts jobs by priority, then submit time, then job id (Hadoop's
JobQueueTaskScheduler).

Never preempts.
"""

from __future__ import annotations

from collections.abc import Iterable

from schedbed.scheduler.hooks import QUIET
from schedbed.scheduler.order.sorted_keys import SortedKeys
from schedbed.scheduler.registry.declarations import Axis
from schedbed.scheduler.view import JobView, NodeView, View
from schedbed.tasks.specs import TaskKind, id_key


def fifo_key(job: JobView) -> tuple[int, float, int, str]:
    """Return priority, submit time and job id; the smallest comes first."""
    return (job.priority, job.submit_s, *id_key(job.job))


class Fifo:
    """The order axis of a composed policy: jobs by priority, then submit time."""

    quiet = QUIET

    def __init__(self) -> None:
        self._ready: dict[TaskKind, SortedKeys[JobView]] = {kind: SortedKeys() for kind in TaskKind}

    def jobs(self, view: View, node: NodeView, kind: TaskKind) -> Iterable[JobView]:
        """Implement `Order.jobs`."""
        return self._ready[kind]

    def changed(self, view: View, job: JobView, kind: TaskKind) -> None:
        """Implement `Hooks.changed`: add the job to the ready jobs, or remove it if no task is ready."""
        ready = self._ready[kind]
        if job.stage(kind).ready:
            if job not in ready:
                ready.put(job, fifo_key(job))
        else:
            ready.drop(job)


AXIS = Axis(
    axis="order",
    name="fifo",
    factory=Fifo,
    summary="jobs by priority, then by submit time",
    paper="Hadoop JobQueueTaskScheduler",
    rank=0,
)
POLICY = AXIS.named(
    summary="Jobs by priority, then by submit time; each job starts the map nearest to its data.",
    rank=0,
)
