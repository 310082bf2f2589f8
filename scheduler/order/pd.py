"""The order axis PD (Performance-Driven scheduling): each job receives the number of slots with which it
meets its deadline, estimated from the times of its own tasks.

Source: the thesis xu2015, section 3.1.5.1, equations 5 and 6, after Polo et al. 2010. The mean time of a
job's ended tasks (equation 5) and the remaining times of its running tasks determine the number of slots that
the job lacks to meet its deadline (equation 6), for maps and reduces separately. A free slot is offered, in
this order, to jobs whose deadline has passed, to new jobs without an ended task (at most `probe` tasks at
once, so that a first time is measured soon), to jobs that lack slots, and to all other jobs.

Decisions where the thesis has no rule: late jobs are sorted by deadline, new jobs by submit time, and jobs
that lack slots by the number of lacking slots, largest first (as in Polo et al.); all other jobs run in FIFO
order, with or without a deadline. The remaining time of a running task is the mean minus its time so far
(`remaining=mean`), or is computed from its progress (`remaining=progress`). As in the printed equations, maps
and reduces have the same deadline, so PD may notice too late that a job's reduces need more slots.
"""

from __future__ import annotations

from math import inf
from typing import Any

from schedbed.scheduler.hooks import QUIET, Quiet
from schedbed.scheduler.models.task_times import MeanTimes, took_s
from schedbed.scheduler.models.time_left import time_left_s
from schedbed.scheduler.order.fifo import fifo_key
from schedbed.scheduler.order.sorted_keys import SortedKeys
from schedbed.scheduler.registry.declarations import Axis
from schedbed.scheduler.registry.parameters import choice, count
from schedbed.scheduler.view import AttemptView, JobView, NodeView, View
from schedbed.tasks.specs import TaskKind

_SLACK = 1e-9
LATE, NEW, LACKING, SPARE = range(4)


class PerformanceDriven:
    """The order axis of a composed policy: jobs that lack slots for their deadlines first.

    `probe`: number of a new job's tasks that run before other jobs' tasks. `remaining`: estimate the
    remaining time of a running task from the mean time of tasks (mean) or from its progress (progress).
    """

    def __init__(self, *, probe: int = 2, remaining: str = "mean") -> None:
        self._probe = probe
        self._by_progress = remaining == "progress"
        self._times: dict[str, MeanTimes] = {}  # Of current jobs that have a deadline.
        self._ready: dict[TaskKind, SortedKeys[JobView]] = {kind: SortedKeys() for kind in TaskKind}
        self._due: dict[TaskKind, dict[str, JobView]] = {
            kind: {} for kind in TaskKind
        }  # Ready jobs with a deadline.

    @property
    def quiet(self) -> Quiet | None:
        """Implement `Hooks.quiet`: progress comes with heartbeats."""
        return None if self._by_progress else QUIET

    # Groups of jobs

    def submitted(self, view: View, job: JobView) -> None:
        """Implement `Hooks.submitted`: record task times of a job with a deadline."""
        if job.deadline_s is not None:
            self._times[job.job] = MeanTimes()

    def ended(self, view: View, attempt: AttemptView) -> None:
        """Implement `Hooks.ended`: add the time of a successful task to its job's mean (equation 5)."""
        times = self._times.get(attempt.task.job.job)
        if times is not None and attempt.state == "succeeded":
            times.add(attempt.task.kind, took_s(attempt))

    def finished(self, view: View, job: JobView) -> None:
        """Implement `Hooks.finished`."""
        self._times.pop(job.job, None)

    def changed(self, view: View, job: JobView, kind: TaskKind) -> None:
        """Implement `Hooks.changed`: add the job to the ready jobs, or remove it if no task is ready."""
        due = self._due[kind]
        if not job.stage(kind).ready:
            self._ready[kind].drop(job)
            due.pop(job.job, None)
            return
        if job.deadline_s is not None:
            due[job.job] = job
        self._place(view, job, kind)

    def tick(self, view: View) -> None:
        """Implement `Hooks.tick`: jobs with a deadline may become late or lack slots."""
        for kind, due in self._due.items():
            for job in due.values():
                self._place(view, job, kind)

    def _place(self, view: View, job: JobView, kind: TaskKind) -> None:
        group, lacks = self._judge(view, job, kind)
        within = {LATE: job.deadline_s, NEW: job.submit_s, LACKING: -lacks, SPARE: 0.0}[group]
        self._ready[kind].put(job, (group, within, *fifo_key(job)))

    def _judge(self, view: View, job: JobView, kind: TaskKind) -> tuple[int, float]:
        """Return the job's group (LATE, NEW, LACKING, or SPARE for all others) and the slots it lacks."""
        deadline_s, times, stage = job.deadline_s, self._times.get(job.job), job.stage(kind)
        if deadline_s is None or times is None:
            return SPARE, 0.0
        if view.now_s >= deadline_s:
            return LATE, 0.0
        running = stage.running - stage.killing
        if not times.knows(kind):
            return (NEW if running < self._probe else SPARE), 0.0
        mean_s = times.mean_s(kind)
        left_s = sum(
            self._left_s(view, each, mean_s)
            for each in (job.attempts.values() if running else ())
            if each.task.kind is kind and each.state != "killing"
        )
        lacks = slots_lacking(mean_s, left_s, stage.unstarted, running, deadline_s - view.now_s)
        return (LACKING if lacks > _SLACK else SPARE), lacks

    def _left_s(self, view: View, attempt: AttemptView, mean_s: float) -> float:
        """Return a running task's remaining seconds, delta in equation 6."""
        started_s = attempt.started_s
        if self._by_progress and attempt.progress > 0 and started_s is not None:
            return time_left_s(attempt.progress, max(0.0, view.now_s - started_s))
        return max(0.0, mean_s - (view.now_s - attempt.assigned_s))

    # Order of jobs

    def jobs(self, view: View, node: NodeView, kind: TaskKind) -> Any:
        """Implement `Order.jobs`: return the ready jobs: late jobs, new jobs, jobs that lack slots, then all others."""
        return self._ready[kind]

    def note(self, view: View, node: NodeView, job: JobView, kind: TaskKind) -> str:
        """Return a note to append to the reason of a launch: the job's group, and the numbers that led to it."""
        if job.deadline_s is None:
            return "spare slot, no deadline"
        group, lacks = self._judge(view, job, kind)
        left_s = job.deadline_s - view.now_s
        if group == LATE:
            return f"its deadline has passed by {-left_s:.1f} s"
        times, running = self._times[job.job], job.stage(kind).running
        if not times.knows(kind):
            probe = f"probe {running + 1} of {self._probe}" if group == NEW else "spare slot"
            return f"{probe}: no {kind.value} of it has ended yet"
        state = f"{times.mean_s(kind):.1f} s a {kind.value}, {left_s:.1f} s left, {running} running"
        return f"lacks {lacks:.2f} slots: {state}" if group == LACKING else f"spare slot: {state}"


AXIS = Axis(
    axis="order",
    name="pd",
    factory=PerformanceDriven,
    summary="late jobs first, then jobs that lack slots for their deadlines, estimated from their "
    "own ended tasks",
    paper="xu2015 3.1.5.1, equations 5 and 6; Polo et al. 2010",
    parameters=(
        count(
            "probe",
            "2",
            "number of tasks of a new job that run before other jobs' tasks, to measure how long they take",
            least=1,
        ),
        choice(
            "remaining",
            ("mean", "progress"),
            "how the remaining time of a running task is estimated: from the mean time of ended "
            "tasks, or from the task's progress",
        ),
    ),
    rank=70,
)
POLICY = AXIS.named(
    summary="Each job gets the slots that its deadline requires, estimated from its own ended tasks; "
    "late jobs come first.",
    rank=78,
)


# The number of additional slots that a job needs to meet its deadline, used by the order axis PD (xu2015
# equation 6).


def slots_lacking(
    mean_s: float, running_left_s: float, unstarted: int, running: int, until_goal_s: float
) -> float:
    """Return (remaining work / time left) - running tasks, which may be negative, or infinite when late.

    The work, `running_left_s` + `unstarted` x `mean_s`, equals the term in equation 6 as printed.
    """
    if until_goal_s <= 0:
        return inf
    return (running_left_s + unstarted * mean_s) / until_goal_s - running
