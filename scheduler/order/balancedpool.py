"""The order axis BalancedPool: divides jobs and slots into a pool of small jobs and a pool of big jobs that
end together, and runs the jobs of each pool in Johnson's order.

Source: the thesis xu2015, section 3.1.4.2 (Verma, Cherkasova and Campbell 2012). The plan (see
`models.johnson`) is recomputed from the remaining tasks whenever a job arrives. Deviations from the thesis: a
pool without a ready task leaves its slots to the second pool, so that no slot is idle; a slot is offered
first to the pool that uses the smaller part of its slots; a plan includes only the oldest `jobs` jobs, to
limit the planning time, and all later jobs follow by submit time.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, islice

from schedbed.scheduler.hooks import QUIET
from schedbed.scheduler.models.johnson import PlannedPool, PlannedStages, balanced_pools
from schedbed.scheduler.models.task_times import StageTimes
from schedbed.scheduler.order.sorted_keys import SortedKeys
from schedbed.scheduler.registry.declarations import Axis
from schedbed.scheduler.registry.parameters import count
from schedbed.scheduler.view import AttemptView, JobView, NodeView, View
from schedbed.tasks.specs import TaskKind

MAP, REDUCE = TaskKind.MAP, TaskKind.REDUCE


class BalancedPool:
    """The order axis of a composed policy: a pool of small jobs and a pool of big jobs that end together,
    each in Johnson's order.

    `jobs`: largest number of jobs in a plan; the oldest jobs are planned. `steps`: number of different sizes
    to try for the pool of small jobs.
    """

    quiet = QUIET

    def __init__(self, *, jobs: int = 100, steps: int = 7) -> None:
        self._most, self._steps = jobs, steps
        self._times = StageTimes()
        self._plan: tuple[PlannedPool, ...] = ()
        self._place: dict[str, tuple[int, int]] = {}  # By job: number of the pool, and position in the pool.
        self._ready: dict[TaskKind, list[SortedKeys[JobView]]] = {kind: [] for kind in TaskKind}
        self._used: dict[TaskKind, list[int]] = {kind: [] for kind in TaskKind}
        self._running: dict[tuple[str, TaskKind], int] = {}

    def submitted(self, view: View, job: JobView) -> None:
        """Implement `Hooks.submitted`: plan again, or append the job to the last pool if there are too many.

        Plans are never made during an offer, when the jobs that avoid the node seem to have no ready task.
        """
        if self._plan and len(view.jobs) > self._most:
            self._place[job.job] = (len(self._plan) - 1, self._most + job.serial)
        else:
            self._plan_again(view)

    def ended(self, view: View, attempt: AttemptView) -> None:
        """Implement `Hooks.ended`."""
        self._times.ended(view, attempt)

    def finished(self, view: View, job: JobView) -> None:
        """Implement `Hooks.finished`: remove the job from its pool, and discard the mean times of its tasks."""
        self._times.finished(view, job)
        pool, _ = self._place.pop(job.job, (0, 0))
        for kind in TaskKind:
            for ready in self._ready[kind]:
                ready.drop(job)
            running = self._running.pop((job.job, kind), 0)
            if self._used[kind]:
                self._used[kind][pool] -= running

    def changed(self, view: View, job: JobView, kind: TaskKind) -> None:
        """Implement `Hooks.changed`: add the job to its pool's ready jobs, or remove it if no task is ready."""
        if job.active:
            self._file(job, kind)

    def jobs(self, view: View, node: NodeView, kind: TaskKind) -> Iterable[JobView]:
        """Implement `Order.jobs`: the pool that uses the smaller part of its slots comes first."""
        used = self._used[kind]
        pools = sorted(
            range(len(used)), key=lambda pool: (used[pool] / max(1, self._slots(pool, kind)), pool)
        )
        return chain.from_iterable(self._ready[kind][pool] for pool in pools)

    def note(self, view: View, node: NodeView, job: JobView, kind: TaskKind) -> str:
        """Return the job's place in the plan and its pool's slots, for the reason of a launch."""
        pool, place = self._place.get(job.job, (0, 0))
        if place >= self._most:
            return "behind the plan, by submit time"
        which = (
            "the only pool"
            if len(self._plan) == 1
            else ("the pool of small jobs", "the pool of big jobs")[pool]
        )
        slots = f"{self._used[kind][pool]} of {self._slots(pool, kind)} {kind.value} slots used"
        ends = " and ".join(f"{each.makespan_s:.1f} s" for each in self._plan)
        return f"number {place + 1} by Johnson in {which}, {slots}; estimated makespan {ends}"

    def _slots(self, pool: int, kind: TaskKind) -> int:
        return self._plan[pool].maps if kind is MAP else self._plan[pool].reduces

    def _plan_again(self, view: View) -> None:
        """Compute a new plan from the remaining tasks of all jobs, and sort the ready jobs by this plan."""
        stages = [self._left(view, job) for job in islice(view.jobs.values(), self._most)]
        maps, reduces = max(1, view.slots(MAP)), max(1, view.slots(REDUCE))
        plan = balanced_pools(stages, maps, reduces, self._steps)
        self._plan = tuple(pool._replace(jobs=()) for pool in plan)  # Names of jobs would outlive the jobs.
        self._place = {
            job: (number, place) for number, pool in enumerate(plan) for place, job in enumerate(pool.jobs)
        }
        last = len(self._plan) - 1
        for job in islice(view.jobs.values(), self._most, None):
            self._place[job.job] = (last, self._most + job.serial)
        self._running.clear()
        for kind in TaskKind:
            self._ready[kind] = [SortedKeys() for _ in self._plan]
            self._used[kind] = [0] * len(self._plan)
            for job in view.jobs.values():
                self._file(job, kind)

    def _left(self, view: View, job: JobView) -> PlannedStages:
        """Return the job's remaining work, with running tasks as whole ones."""
        left = {kind: job.stage(kind).unstarted + job.stage(kind).running for kind in TaskKind}
        times = {kind: self._times.task_s(view, job, kind) for kind in TaskKind}
        return PlannedStages(job.job, left[MAP], times[MAP], left[REDUCE], times[REDUCE])

    def _file(self, job: JobView, kind: TaskKind) -> None:
        """Update the pool's ready jobs and used slots after a change of the job's tasks."""
        known = self._place.get(job.job)
        if known is None:
            return
        pool, place = known
        stage = job.stage(kind)
        self._used[kind][pool] += stage.running - self._running.get((job.job, kind), 0)
        self._running[job.job, kind] = stage.running
        if stage.ready:
            self._ready[kind][pool].put(job, (place, job.serial))
        else:
            self._ready[kind][pool].drop(job)


AXIS = Axis(
    axis="order",
    name="balancedpool",
    factory=BalancedPool,
    summary="small and large jobs run in two pools that end at the same time, each in Johnson's order",
    paper="xu2015 3.1.4.2; Verma 2012",
    parameters=(
        count(
            "jobs", "100", "largest number of jobs in a plan; the oldest jobs are planned", "jobs", least=1
        ),
        count("steps", "7", "number of different sizes that are tried for the pool of small jobs", least=0),
    ),
    rank=60,
)
POLICY = AXIS.named(
    summary="Small and large jobs run in two pools that end at the same time, each in Johnson's "
    "order, for a short makespan.",
    rank=90,
)
