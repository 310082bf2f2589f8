"""Pools, which contain the jobs of one user or queue, and the keys by which pools and jobs are sorted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from schedbed.scheduler.order.fifo import fifo_key
from schedbed.scheduler.order.sorted_keys import SortedKeys
from schedbed.scheduler.view import JobView, StageView, TallyView
from schedbed.tasks.specs import TaskKind, id_key

PRIORITY_WEIGHTS = (4.0, 2.0, 1.0, 0.5, 0.25)  # JobSchedulable.getWeight of HFS


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSettings:
    """The settings of a pool of jobs.

    `weight`: the pool's slots are in proportion to this number. `min_share`: the pool's minimum number of map
    slots, and also of reduce slots. `inside`: order of the pool's jobs, fair or fifo.
    """

    weight: float = 1.0
    min_share: int = 0
    inside: str = "fair"


class Pool:
    """The jobs of one user or queue, with sorted lists of the ready jobs.

    `by_name`: of two pools with equal keys, the first by name is served first. If false, the pool with the
    oldest job is served first.
    """

    __slots__ = ("by_name", "jobs", "name", "ready", "settings", "tallies")

    def __init__(self, name: str, settings: PoolSettings, *, by_name: bool = False) -> None:
        self.name = name
        self.by_name = by_name
        self.settings = settings
        self.tallies: dict[TaskKind, TallyView] = {}
        self.ready: dict[TaskKind, SortedKeys[JobView]] = {kind: SortedKeys() for kind in TaskKind}
        self.jobs: SortedKeys[JobView] = SortedKeys()  # not ended, oldest first

    def key(self, kind: TaskKind) -> tuple[int, float, float, str]:
        """Return the sort key of the pool; the smallest key comes first. The pool must have a ready job."""
        running, settings = self.tallies[kind].running, self.settings
        submit_s = 0.0 if self.by_name else self.jobs.first().submit_s
        if running < settings.min_share:
            return (0, running / settings.min_share, submit_s, self.name)
        return (1, running / settings.weight, submit_s, self.name)

    def job_key(self, job: JobView, stage: StageView) -> tuple[Any, ...]:
        """Return the key by which the job is sorted inside the pool. `stage` is the job's map stage or reduce
        stage."""
        if self.settings.inside == "fifo":
            return fifo_key(job)
        weight = PRIORITY_WEIGHTS[job.priority]
        return (stage.running / weight, job.submit_s, *id_key(job.job))
