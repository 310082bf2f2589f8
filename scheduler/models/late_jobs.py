"""The planner of MRCP: start times of tasks by constraint programming so that few jobs are late (xu2015
3.1.5.3).

The constraints are the thesis's: (a) each task runs once, (b) after now and its job's submission, (c) reduces
start after all maps of their job, (d) a job ends with its last task, (e) tasks never exceed the slots, of
which all of one kind are one resource. The solver is CP-SAT of OR-Tools, not CPLEX.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from heapq import heappop, heappush
from math import ceil
from typing import Any, NamedTuple

from ortools.sat.python import cp_model

from schedbed.tasks.specs import TaskKind

MAP, REDUCE = TaskKind.MAP, TaskKind.REDUCE
_STEPS_PER_S = 100
_MOST_STEPS = 10**8


class LeftStage(NamedTuple):
    """The rest of a job's maps or reduces. `running_s` has each running task's remaining seconds."""

    unstarted: int
    task_s: float
    running_s: tuple[float, ...] = ()


class JobDue(NamedTuple):
    """A job to plan: its deadline, `due_s` seconds from now, and the remaining work of its map and reduce stages."""

    job: str
    due_s: float
    maps: LeftStage
    reduces: LeftStage


class PlannedStarts(NamedTuple):
    """A job's planned starts by kind, as (seconds from now, number of tasks). `late` misses the deadline."""

    starts: dict[TaskKind, tuple[tuple[float, int], ...]]
    late: bool


class LatePlan(NamedTuple):
    """The solver's plans by job id. `proven` means that no plan is better."""

    jobs: dict[str, PlannedStarts]
    proven: bool


class TaskBatch(NamedTuple):
    """Tasks of a stage that the plan treats as one interval: `width` slots for `length` time steps."""

    width: int
    length: int
    tasks: int


def batches(tasks: int, steps: int, slots: int, most: int) -> list[TaskBatch]:
    """Divide a stage into at most `most` batches of about equal size, of one task if there are few.

    A task takes `steps` time steps, and at most `slots` of a batch run at once.
    """
    if not tasks:
        return []
    width = min(slots, ceil(tasks / most))
    rounds = ceil(tasks / (most * width))
    full, rest = divmod(tasks, width * rounds)
    found = [TaskBatch(width, rounds * steps, width * rounds)] * full
    if rest:
        wide = min(width, rest)
        found.append(TaskBatch(wide, ceil(rest / wide) * steps, rest))
    return found


def _steps(seconds: float) -> int:
    return max(1, min(_MOST_STEPS, ceil(seconds * _STEPS_PER_S - 1e-6)))


class _Model:
    """The constraint program, a model of the solver CP-SAT, from which one plan is computed."""

    def __init__(self, slots: dict[TaskKind, int], most: int) -> None:
        self._slots, self._most = slots, most
        self.model = cp_model.CpModel()
        self._busy: dict[TaskKind, list[tuple[Any, int]]] = {kind: [] for kind in TaskKind}
        self.late: list[Any] = []
        self.ends: list[Any] = []
        self.starts: list[dict[TaskKind, list[tuple[Any, TaskBatch]]]] = []
        self.latest = 0

    def add_all(self, jobs: Sequence[JobDue]) -> None:
        """Add all jobs and the limit on slots (constraint e) to the program."""
        make = partial(batches, most=self._most)
        work = sum(
            batch.length
            for job in jobs
            for kind, stage in ((MAP, job.maps), (REDUCE, job.reduces))
            for batch in make(stage.unstarted, _steps(stage.task_s), self._slots[kind])
        )
        running = [left for job in jobs for stage in (job.maps, job.reduces) for left in stage.running_s]
        self.latest = work + max((_steps(left) for left in running), default=0)
        free = {kind: self._free(jobs, kind) for kind in TaskKind}
        for job in jobs:
            self._add(job, free)
        for kind, busy in self._busy.items():
            if busy:
                slots = len(free[kind])
                self.model.add_cumulative([each for each, _ in busy], [width for _, width in busy], slots)

    def _free(self, jobs: Sequence[JobDue], kind: TaskKind) -> list[int]:
        """Return a heap of when slots become free, in steps from now; longer than the slots if a node was lost."""
        stages = [job.maps if kind is MAP else job.reduces for job in jobs]
        held = sorted(_steps(left) for stage in stages for left in stage.running_s)
        return [0] * max(0, self._slots[kind] - len(held)) + held

    def _add(self, job: JobDue, free: dict[TaskKind, list[int]]) -> None:
        """Add a job (constraints a to d), with hints: a simple schedule without filled gaps, kept in `free`.

        With them the solver finds a plan even within a small search limit.
        """
        hint, known_end = self.model.add_hint, 0
        end = self.model.new_int_var(0, self.latest, "")
        starts: dict[TaskKind, list[tuple[Any, TaskBatch]]] = {}
        maps_end: Any = 0
        for kind, stage in ((MAP, job.maps), (REDUCE, job.reduces)):
            stage_end = self.model.new_int_var(0, self.latest, "")
            for left in stage.running_s:
                steps = _steps(left)
                self._busy[kind].append((self.model.new_fixed_size_interval_var(0, steps, ""), 1))
                self.model.add(stage_end >= steps)
            planned: list[tuple[Any, TaskBatch]] = []
            maps_known_end = known_end
            stage_known_end = max((_steps(left) for left in stage.running_s), default=0)
            for batch in batches(stage.unstarted, _steps(stage.task_s), self._slots[kind], self._most):
                start = self.model.new_int_var(0, self.latest, "")
                self._busy[kind].append(
                    (self.model.new_fixed_size_interval_var(start, batch.length, ""), batch.width)
                )
                self.model.add(start >= maps_end)
                if planned and planned[-1][1] == batch:
                    self.model.add(
                        start >= planned[-1][0]
                    )  # Equal batches can be exchanged: one order is enough.
                self.model.add(stage_end >= start + batch.length)
                planned.append((start, batch))
                begin = max([maps_known_end, *(heappop(free[kind]) for _ in range(batch.width))])
                for _ in range(batch.width):
                    heappush(free[kind], begin + batch.length)
                hint(start, begin)
                stage_known_end = max(stage_known_end, begin + batch.length)
            hint(stage_end, stage_known_end)
            known_end = max(known_end, stage_known_end)
            starts[kind], maps_end = planned, stage_end
            self.model.add(end >= stage_end)
        late = self.model.new_bool_var("")
        due = int(min(_MOST_STEPS, max(-1, job.due_s * _STEPS_PER_S)))
        if due < 0:
            self.model.add(late == 1)
        else:
            self.model.add(end <= due).only_enforce_if(late.negated())
        hint(end, known_end)
        hint(late, known_end > due)
        self.starts.append(starts)
        self.late.append(late)
        self.ends.append(end)


def few_late_first(jobs: Sequence[JobDue], maps: int, reduces: int) -> list[JobDue]:
    """Return the jobs in time by deadline, then the late ones, as a starting point (Moore and Hodgson's
    rule).

    The slots count as one machine. When a job would be late, the one with the most work so far, the longer
    stage's time on all slots, is moved to the late ones. One with unstarted reduces ends a reduce later than
    its work.
    """
    on_time: list[tuple[float, JobDue]] = []
    behind: list[JobDue] = []
    total_s = 0.0
    for job in sorted(jobs, key=lambda job: job.due_s):
        parts = ((job.maps, maps), (job.reduces, reduces))
        work_s = max(
            (stage.unstarted * stage.task_s + sum(stage.running_s)) / slots for stage, slots in parts
        )
        on_time.append((work_s, job))
        total_s += work_s
        if total_s + (job.reduces.task_s if job.reduces.unstarted else 0.0) > job.due_s:
            longest = max(range(len(on_time)), key=lambda place: on_time[place][0])
            taken_s, taken = on_time.pop(longest)
            total_s -= taken_s
            behind.append(taken)
    return [job for _, job in on_time] + behind


def plan_late_jobs(
    jobs: Sequence[JobDue], maps: int, reduces: int, *, bound: float, most: int, seed: int
) -> LatePlan | None:
    """Return the best plan found, or None: fewest late jobs, then the smallest sum of end times.

    `bound` limits the search in CP-SAT's deterministic time, `most` the batches per stage. One thread makes
    equal jobs give equal plans on any host.
    """
    maps, reduces = max(1, maps), max(1, reduces)
    program = _Model({MAP: maps, REDUCE: reduces}, most)
    jobs = few_late_first(jobs, maps, reduces)
    program.add_all(jobs)
    worst = program.latest * len(jobs) + 1  # More than the sum of ends: a late job outweighs all of that.
    program.model.minimize(worst * sum(program.late) + sum(program.ends))
    solver = cp_model.CpSolver()
    parameters = solver.parameters
    parameters.num_workers = 1
    parameters.random_seed = seed % 2**31
    parameters.max_deterministic_time = bound
    parameters.catch_sigint_signal = False  # Ctrl-C belongs to the run.
    status = solver.solve(program.model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None
    found = {
        job.job: PlannedStarts(
            {
                kind: tuple(
                    sorted((solver.value(start) / _STEPS_PER_S, batch.tasks) for start, batch in planned)
                )
                for kind, planned in starts.items()
            },
            bool(solver.value(late)),
        )
        for job, starts, late in zip(jobs, program.starts, program.late, strict=True)
    }
    return LatePlan(found, status == cp_model.OPTIMAL)
