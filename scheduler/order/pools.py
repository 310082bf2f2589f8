"""Pools, which contain the jobs of one user or queue, and the keys by which pools and jobs are sorted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from math import inf
from typing import Any, NamedTuple

from schedbed.scheduler.order.fifo import fifo_key
from schedbed.scheduler.order.sorted_keys import SortedKeys
from schedbed.scheduler.view import JobView, NodeView, StageView, TallyView, View
from schedbed.tasks.specs import JobSpec, TaskKind, id_key

PRIORITY_WEIGHTS = (4.0, 2.0, 1.0, 0.5, 0.25)  # JobSchedulable.getWeight of HFS


class SlotsByKind(NamedTuple):
    """A number of map slots and a number of reduce slots."""

    map: float
    reduce: float

    def of(self, kind: TaskKind) -> float:
        """Return the number for one kind."""
        return self.map if kind is TaskKind.MAP else self.reduce


NO_SLOTS, ALL_SLOTS = SlotsByKind(0, 0), SlotsByKind(inf, inf)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSettings:
    """The settings of a pool of jobs.

    `weight`: the pool's slots are in proportion to this number. `min_share`, `max_share`: the slots of each
    kind that the pool has before others, and may hold at most. `max_running`: the jobs that may start tasks at a
    time, or None. `inside`: order of the pool's jobs, fair or fifo, or empty for the policy's default.
    `min_share_timeout_s`: replaces the policy's timeout for this pool.
    """

    weight: float = 1.0
    min_share: SlotsByKind = NO_SLOTS
    max_share: SlotsByKind = ALL_SLOTS
    max_running: int | None = None
    inside: str = ""
    min_share_timeout_s: float | None = None


class Pool:
    """The jobs of one user or queue, with sorted lists of the ready jobs.

    `by_name`: of two pools with equal keys, the first by name is served first. If false, the pool with the
    oldest job is served first. `due`: the slots that were taken for the pool by force and that it has not got yet.
    """

    __slots__ = ("by_name", "due", "jobs", "name", "ready", "settings", "tallies")

    def __init__(self, name: str, settings: PoolSettings, *, by_name: bool = False) -> None:
        self.name = name
        self.by_name = by_name
        self.settings = settings
        self.tallies: dict[TaskKind, TallyView] = {}
        self.due: dict[TaskKind, int] = dict.fromkeys(TaskKind, 0)
        self.ready: dict[TaskKind, SortedKeys[JobView]] = {kind: SortedKeys() for kind in TaskKind}
        self.jobs: SortedKeys[JobView] = SortedKeys()  # not ended, oldest first

    def key(self, kind: TaskKind) -> tuple[int, float, float, str]:
        """Return the sort key of the pool; the smallest key comes first. The pool must have a ready job.

        A pool below its min share comes before others, by what it holds of the min share or, if it has less to
        run, of its demand (SchedulingAlgorithms.FairShareComparator of Hadoop 1.0.3). Before these, unlike in
        Hadoop, comes a pool for which a slot was taken by force, so that no other pool gets it.
        """
        running, settings = self.tallies[kind].running, self.settings
        submit_s = 0.0 if self.by_name else self.jobs.first().submit_s
        if self.due[kind]:
            return (-1, 0.0, submit_s, self.name)
        least = settings.min_share.of(kind)
        if running < least:
            least = min(least, running + self.startable(kind))
            if running < least:
                return (0, running / least, submit_s, self.name)
        return (1, running / settings.weight, submit_s, self.name)

    def startable(self, kind: TaskKind) -> int:
        """Return the number of unstarted tasks of the jobs that may start tasks now."""
        return sum(job.stage(kind).unstarted for job in self.ready[kind])

    def job_key(self, job: JobView, stage: StageView) -> tuple[Any, ...]:
        """Return the key by which the job is sorted inside the pool. `stage` is the job's map stage or reduce stage."""
        if self.settings.inside == "fifo":
            return fifo_key(job)
        weight = PRIORITY_WEIGHTS[job.priority]
        return (stage.running / weight, job.submit_s, *id_key(job.job))


# The base class of orders that divide slots among users or queues: a sorted list of pools, each with sorted
# ready jobs.


class PoolOrder(ABC):
    """The base class of order axes with pools: pools are sorted by `Pool.key`, the ready jobs of a pool by
    `Pool.job_key`.

    `by_user`: there is a pool for each user; if false, a pool for each queue. Subclasses implement
    `new_pool`.
    """

    def __init__(self, *, by_user: bool = True) -> None:
        self._by_user = by_user
        self.pools: dict[str, Pool] = {}
        self._order: dict[TaskKind, SortedKeys[SortedKeys[JobView]]] = {
            kind: SortedKeys() for kind in TaskKind
        }  # The ready jobs of each pool that has any.

    @abstractmethod
    def new_pool(self, name: str) -> Pool:
        """Return a new pool for the user or queue `name`."""

    def pool_of(self, job: JobView | JobSpec) -> str:
        return job.user if self._by_user else job.queue

    def jobs(self, view: View, node: NodeView, kind: TaskKind) -> Iterable[JobView]:
        """Implement `Order.jobs`: return the ready jobs of the first pool, then of the second pool, and so on."""
        return chain.from_iterable(self._order[kind])

    def submitted(self, view: View, job: JobView) -> None:
        """Implement `Hooks.submitted`: add the job to its pool, and create the pool if there is none."""
        name = self.pool_of(job)
        pool = self.pools.get(name)
        if pool is None:
            pool = self.pools[name] = self.new_pool(name)
            for kind in TaskKind:
                stage = job.stage(kind)
                pool.tallies[kind] = stage.user if self._by_user else stage.queue
        pool.jobs.put(job, (job.submit_s, job.serial))

    def finished(self, view: View, job: JobView) -> None:
        """Implement `Hooks.finished`. The pool is sorted again: its oldest job, which is in its key, may be gone."""
        pool = self._pool(job)
        pool.jobs.drop(job)
        for kind in TaskKind:
            pool.ready[kind].drop(job)
            self._place(pool, kind)

    def changed(self, view: View, job: JobView, kind: TaskKind) -> None:
        """Implement `Hooks.changed`: sort the job in its pool again, and the pool among all pools."""
        self.settle_job(job, kind)

    def settle_job(self, job: JobView, kind: TaskKind) -> None:
        """Sort the job in its pool again, if it may start tasks, and the pool among all pools."""
        pool = self._pool(job)
        ready = pool.ready[kind]
        stage = job.stage(kind)
        if stage.ready and self.may_run(job):
            ready.put(job, pool.job_key(job, stage))
        else:
            ready.drop(job)
        self._place(pool, kind)

    def may_run(self, job: JobView) -> bool:
        """Return whether the job may start tasks. A subclass may limit the number of such jobs."""
        return True

    def _place(self, pool: Pool, kind: TaskKind) -> None:
        """Sort the pool again among the pools with ready jobs of that kind. A pool without ready jobs is removed."""
        ready = pool.ready[kind]
        if ready and pool.tallies[kind].running < pool.settings.max_share.of(kind):
            self._order[kind].put(ready, pool.key(kind))
        else:
            self._order[kind].drop(ready)

    def resettle(self, pool: Pool, settings: PoolSettings) -> None:
        """Change the settings of the pool, and sort the pool and its jobs by the new settings."""
        if settings == pool.settings:
            return
        other_order = settings.inside != pool.settings.inside
        pool.settings = settings
        for kind in TaskKind:
            ready = pool.ready[kind]
            for job in list(ready) if other_order else ():
                ready.put(job, pool.job_key(job, job.stage(kind)))
            self._place(pool, kind)

    def _pool(self, job: JobView) -> Pool:
        return self.pools[self.pool_of(job)]
