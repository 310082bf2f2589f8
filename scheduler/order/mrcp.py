"""The order axis MRCP: plans the start times of all tasks by constraint programming, so that few jobs miss
their deadlines.

Source: the thesis xu2015, section 3.1.5.3, after Lim, Majumdar and Ashwood-Smith 2014. The objective and the
constraints a to e are those of `models.late_jobs`. A new plan is computed on the tick after a job with a
deadline arrived, the slots changed, or the first task with a job's name was measured; until then the last
plan remains valid.

Decisions where the thesis has no rule: a plan includes the `jobs` jobs with the earliest deadlines; among
plans with equal numbers of late jobs, the plan with the smallest sum of ends is best. A slot is offered to
the ready job whose next task has the earliest planned start, and is never kept idle until a planned start.
After the planned jobs come unplanned jobs with a deadline, by deadline, then jobs without a deadline, in FIFO
order. Task times are means of the job's own tasks, else of earlier jobs of the same user and name (the logs
of the thesis), else estimated from the input. The solver runs on a tick and not in a heartbeat, in the
JobTracker and not in a thread: a plan must be a function of the recorded events, so that replays of the
journal and simulations produce the same answers. `bound` is CP-SAT's deterministic time, which counts the
solver's steps and not seconds.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import nsmallest
from importlib import import_module
from typing import Any

from schedbed.scheduler.hooks import QUIET
from schedbed.scheduler.models.task_times import StageTimes
from schedbed.scheduler.order.fifo import fifo_key
from schedbed.scheduler.order.sorted_keys import SortedKeys
from schedbed.scheduler.registry.declarations import Axis, Needs
from schedbed.scheduler.registry.parameters import count, number, positive
from schedbed.scheduler.view import AttemptView, JobView, NodeView, View
from schedbed.tasks.specs import TaskKind

MAP, REDUCE = TaskKind.MAP, TaskKind.REDUCE
PLANNED, DUE, SPARE = range(3)
OR_TOOLS = Needs("ortools", "mrcp")


def _solver() -> Any:
    """Import `models.late_jobs` only when needed, since it imports OR-Tools."""
    return import_module("schedbed.scheduler.models.late_jobs")


class Mrcp:
    """The order axis of a composed policy: start times planned by constraint programming.

    `jobs`: largest number of jobs in a plan. `batches`: largest number of batches into which the tasks of a
    stage are grouped. `bound`: limit of the solver's work, in CP-SAT's deterministic time.
    """

    quiet = QUIET

    def __init__(self, *, jobs: int = 20, batches: int = 6, bound: float = 0.05) -> None:
        self._most, self._batches, self._bound = jobs, batches, bound
        self._times = StageTimes()
        self._measured: dict[tuple[str, str, TaskKind], None] = {}
        self._starts: dict[tuple[str, TaskKind], tuple[tuple[float, int], ...]] = {}  # absolute times
        self._unstarted: dict[tuple[str, TaskKind], int] = {}  # when the plan was made
        self._late: dict[str, bool] = {}
        self._proven = False
        self._stale = False
        self._slots = (0, 0)
        self._ready: dict[TaskKind, SortedKeys[JobView]] = {kind: SortedKeys() for kind in TaskKind}
        _solver()  # import the solver here, not in the first tick

    def submitted(self, view: View, job: JobView) -> None:
        """Implement `Hooks.submitted`: a job with a deadline causes a new plan at the next tick."""
        self._stale = self._stale or job.deadline_s is not None

    def ended(self, view: View, attempt: AttemptView) -> None:
        """Implement `Hooks.ended`: add the time. The first one of a user, name and kind causes a new plan."""
        self._times.ended(view, attempt)
        job = attempt.task.job
        known = (job.user, job.spec.name, attempt.task.kind)
        if attempt.state == "succeeded" and known not in self._measured:
            self._measured[known] = None
            self._stale = self._stale or job.deadline_s is not None

    def finished(self, view: View, job: JobView) -> None:
        """Implement `Hooks.finished`: remove the job, its plan and its task times."""
        self._times.finished(view, job)
        self._late.pop(job.job, None)
        for kind in TaskKind:
            self._ready[kind].drop(job)
            self._starts.pop((job.job, kind), None)
            self._unstarted.pop((job.job, kind), None)

    def changed(self, view: View, job: JobView, kind: TaskKind) -> None:
        """Implement `Hooks.changed`: add the job to the ready jobs, or remove it if no task is ready."""
        if job.active and job.stage(kind).ready:
            self._ready[kind].put(job, self._key(job, kind))
        else:
            self._ready[kind].drop(job)

    def _key(self, job: JobView, kind: TaskKind) -> tuple[Any, ...]:
        starts_s = self._next_start_s(job, kind)
        if starts_s is not None:
            return (PLANNED, starts_s, job.serial)
        if job.deadline_s is not None:
            return (DUE, job.deadline_s, job.serial)
        return (SPARE, *fifo_key(job))

    def _next_start_s(self, job: JobView, kind: TaskKind) -> float | None:
        """Return the planned start of the job's next task, or None if it is not in the plan."""
        starts = self._starts.get((job.job, kind))
        if not starts:
            return None
        launched = self._unstarted[job.job, kind] - job.stage(kind).unstarted
        for start_s, tasks in starts:
            launched -= tasks
            if launched < 0:
                return start_s
        return starts[-1][0]

    def tick(self, view: View) -> None:
        """Implement `Hooks.tick`: compute a new plan if a hook asked for one, or for other slots."""
        slots = (view.slots(MAP), view.slots(REDUCE))
        if not (self._stale or slots != self._slots):
            return
        self._stale, self._slots = False, slots
        due = nsmallest(
            self._most,
            (job for job in view.jobs.values() if job.deadline_s is not None),
            key=lambda job: (job.deadline_s, job.serial),
        )
        if not due:
            return
        module = _solver()
        found = module.plan_late_jobs(
            [self._left(view, job, module) for job in due],
            *slots,
            bound=self._bound,
            most=self._batches,
            seed=view.seed,
        )
        if found is not None:
            self._take(view, due, found)

    def _left(self, view: View, job: JobView, module: Any) -> Any:
        """Return the job's remaining work and seconds to its deadline as a `JobDue`."""
        stages = [self._stage_left(view, job, kind, module) for kind in (MAP, REDUCE)]
        return module.JobDue(job.job, (job.deadline_s or 0.0) - view.now_s, *stages)

    def _stage_left(self, view: View, job: JobView, kind: TaskKind, module: Any) -> Any:
        task_s = self._times.task_s(view, job, kind)
        running_s = tuple(
            max(0.0, task_s - (view.now_s - attempt.assigned_s))
            for attempt in job.attempts.values()
            if attempt.task.kind is kind and not attempt.speculative
        )
        return module.LeftStage(job.stage(kind).unstarted, task_s, running_s)

    def _take(self, view: View, due: list[JobView], found: Any) -> None:
        """Replace the plan by the solver's, and sort all ready jobs."""
        self._proven = found.proven
        self._starts.clear()
        self._unstarted.clear()
        self._late = {name: planned.late for name, planned in found.jobs.items()}
        for job in due:
            for kind, starts in found.jobs[job.job].starts.items():
                self._starts[job.job, kind] = tuple((view.now_s + at_s, tasks) for at_s, tasks in starts)
                self._unstarted[job.job, kind] = job.stage(kind).unstarted
        for job in view.jobs.values():
            for kind in TaskKind:
                self.changed(view, job, kind)

    def jobs(self, view: View, node: NodeView, kind: TaskKind) -> Iterable[JobView]:
        """Implement `Order.jobs`: the earliest planned start first."""
        return self._ready[kind]

    def note(self, view: View, node: NodeView, job: JobView, kind: TaskKind) -> str:
        """Return the planned start, or why there is none, for the reason of a launch."""
        starts_s = self._next_start_s(job, kind)
        if starts_s is None:
            return "spare slot, no deadline" if job.deadline_s is None else "behind the plan, by deadline"
        ends = "late" if self._late[job.job] else "in time"
        late = sum(self._late.values())
        proof = "proven best" if self._proven else "best found within the bound"
        return f"planned to start at {starts_s:.1f} s and to end {ends}; {late} of {len(self._late)} jobs late, {proof}"


AXIS = Axis(
    axis="order",
    name="mrcp",
    factory=Mrcp,
    summary="plans the start times of tasks by constraint programming, so that few jobs are late; "
    "jobs without a deadline come last",
    paper="xu2015 3.1.5.3; Lim 2014",
    parameters=(
        count(
            "jobs",
            "20",
            "largest number of jobs in a plan; jobs with the earliest deadlines are planned",
            "jobs",
            least=1,
        ),
        count(
            "batches",
            "6",
            "largest number of groups into which a plan divides a job's maps, or its reduces; more "
            "groups make plans finer and slower",
            least=1,
        ),
        number(
            "bound",
            "0.05",
            "",
            "largest effort of the solver per plan, in CP-SAT's deterministic time, which is the "
            "same on all hosts",
            positive,
        ),
    ),
    needs=OR_TOOLS,
    rank=72,
)
POLICY = AXIS.named(
    summary="Plans the start times of tasks by constraint programming (OR-Tools), so that few jobs "
    "miss their deadlines.",
    rank=92,
)
