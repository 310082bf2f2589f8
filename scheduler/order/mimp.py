"""The order axis MIMP: jobs that may miss their deadlines come first.

All other jobs run on the nodes where a foreground load (programs outside the cluster's jobs) slows them
least. Source: the thesis xu2015, section 3.1.5.4, after Zhang et al. 2014. Nodes are dedicated or shared. On
a shared node a foreground load, declared as `foreground` of the node, has priority on the CPU over all tasks.
The thesis calls this priority the MI scheduler, and the choice of tasks the MP scheduler; this module is the
MP scheduler. `models.residual_cpu` predicts the times of tasks from the free share of the CPU, and these
times tell which jobs are likely to be late. Such jobs come first, the earliest deadline first. All other jobs
are sorted by the time of a task on the offered node divided by its mean time on all slots, least first. As a
result, tasks that compute run on dedicated nodes, and tasks that wait for disks and networks on shared nodes.

Decisions where the thesis has no rule: the model is learned during the run, for each user, job name and kind
of task. The whole time of a task is treated as computing time until tasks with two different CPU shares were
measured; a job without data is treated as average on all nodes. To find the jobs at risk, the policy assumes
that jobs with a deadline use the whole cluster one after another, the earliest deadline first. A job is at
risk if it would not end in time when the time of the job and of all jobs before it is multiplied by `margin`.
Such a job comes first on nodes where a task of it ends before the deadline, or on all nodes if there is no
such node. Shares are rounded to 1/20. Between two equal jobs, a job with a deadline comes first, then FIFO
decides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from math import inf
from typing import NamedTuple

from schedbed.cluster.spec import NodeSpec
from schedbed.scheduler.hooks import QUIET
from schedbed.scheduler.models.task_times import UNKNOWN_S, took_s
from schedbed.scheduler.order.fifo import fifo_key
from schedbed.scheduler.registry.declarations import Axis
from schedbed.scheduler.registry.parameters import number, positive
from schedbed.scheduler.view import AttemptView, JobView, NodeView, View
from schedbed.tasks.specs import TaskKind

LEVELS = 20


class Mimp:
    """The order axis of a composed policy: jobs that may be late first, then all other jobs where a
    foreground load (programs outside the cluster's jobs) slows them least.

    `margin`: factor by which predicted times are multiplied to find the jobs that may be late.
    """

    quiet = QUIET

    def __init__(self, *, margin: float = 1.2) -> None:
        self._margin = margin
        self._times: dict[tuple[str, str, TaskKind], ResidualTimes] = {}
        self._slots: dict[TaskKind, list[SlotsLeft]] = {kind: [] for kind in TaskKind}
        self._risks: dict[str, tuple[float, float]] = {}  # predicted and allowed seconds of jobs at risk
        self._orders: dict[tuple[TaskKind, int], list[JobView]] = {}
        self._jobs: dict[str, JobView] = {}  # All jobs, also those that are not offered the current slot.
        self._is_stale = True

    # Knowledge of task times

    def submitted(self, view: View, job: JobView) -> None:
        """Implement `Hooks.submitted`. The next offer sorts all jobs again."""
        self._jobs[job.job] = job
        self._is_stale = True

    def finished(self, view: View, job: JobView) -> None:
        """Implement `Hooks.finished`: remove the job. The next offer sorts all jobs again."""
        self._is_stale = True
        self._orders.clear()
        del self._jobs[job.job]
        self._risks.pop(job.job, None)

    def ended(self, view: View, attempt: AttemptView) -> None:
        """Implement `Hooks.ended`: add a task's time with its node's mean free CPU to the model."""
        if attempt.state != "succeeded":
            return
        times = self._times_of(attempt.task.job, attempt.task.kind)
        self._is_stale = self._is_stale or not times  # Better estimates count from the next tick on.
        times.add(mean_free_cpu(attempt.node.spec, attempt.assigned_s, attempt.end_s), took_s(attempt))

    def tick(self, view: View) -> None:
        """Implement `Hooks.tick`: sort again, since loads and remaining times change."""
        self._is_stale = True

    def _times_of(self, job: JobView, kind: TaskKind) -> ResidualTimes:
        key = (job.user, job.spec.name, kind)
        times = self._times.get(key)
        if times is None:
            times = self._times[key] = ResidualTimes()
        return times

    def _look(self, view: View) -> None:
        """Recompute the number of slots at each free CPU share, and find the jobs that may miss their deadline."""
        self._is_stale = False
        self._orders.clear()
        self._risks.clear()
        maps, reduces = Counter[int](), Counter[int]()
        for node in view.nodes.values():
            if node.alive:
                level = _level(node, view.now_s)
                maps[level] += node.spec.map_slots
                reduces[level] += node.spec.reduce_slots
        for kind, slots in ((TaskKind.MAP, maps), (TaskKind.REDUCE, reduces)):
            self._slots[kind] = [SlotsLeft(level / LEVELS, count) for level, count in sorted(slots.items())]
        due = [(job.deadline_s, job.serial, job) for job in self._jobs.values() if job.deadline_s is not None]
        until_s = 0.0
        for deadline_s, _, job in sorted(due, key=lambda each: each[:2]):
            until_s += sum(self._left_s(job, kind) for kind in TaskKind)
            if until_s * self._margin > deadline_s - view.now_s:
                self._risks[job.job] = until_s, deadline_s - view.now_s

    def _left_s(self, job: JobView, kind: TaskKind) -> float:
        """Return the seconds in which all slots complete the job's tasks, a running one as half."""
        stage = job.stage(kind)
        tasks = stage.unstarted + stage.running / 2
        if not tasks:
            return 0.0
        speed = tasks_per_s(self._times_of(job, kind).fitted(), self._slots[kind])
        return tasks / speed if speed else float("inf")

    # Order of jobs

    def group_of(self, view: View, node: NodeView) -> str:
        """Implement `Order.group_of`: nodes of equal free CPU are offered the same jobs in the same order."""
        return str(_level(node, view.now_s))

    def jobs(self, view: View, node: NodeView, kind: TaskKind) -> Iterable[JobView]:
        """Implement `Order.jobs`: return the ready jobs, sorted for the free CPU share of the node."""
        if self._is_stale:
            self._look(view)
        level = _level(node, view.now_s)
        order = self._orders.get((kind, level))
        if order is None:
            order = self._orders[kind, level] = self._ordered(kind, level)
        return (job for job in order if job.stage(kind).ready)

    def _ordered(self, kind: TaskKind, level: int) -> list[JobView]:
        return sorted(self._jobs.values(), key=lambda job: self._key(job, kind, level))

    def _key(self, job: JobView, kind: TaskKind, level: int) -> tuple[float, float, bool, tuple[object, ...]]:
        if job.job in self._risks and self._is_in_time(job, kind, level):
            return (0, job.deadline_s or 0.0, False, fifo_key(job))
        return (1, self._normal(job, kind, level), job.deadline_s is None, fifo_key(job))

    def _is_in_time(self, job: JobView, kind: TaskKind, level: int) -> bool:
        """Return whether a task started on such a node would end in time, or be late on every node."""
        _, left_s = self._risks[job.job]
        task = self._times_of(job, kind).fitted()
        best = max((each.free_cpu for each in self._slots[kind]), default=1.0)
        return task.on(level / LEVELS) <= left_s or task.on(best) > left_s

    def _normal(self, job: JobView, kind: TaskKind, level: int) -> float:
        times = self._times_of(job, kind)
        if not times:
            return 1.0
        return round(normal_time(times.fitted(), level / LEVELS, self._slots[kind]), 2)

    def note(self, view: View, node: NodeView, job: JobView, kind: TaskKind) -> str:
        """Return the risk of being late, or the task time here, for the reason of a launch."""
        level = _level(node, view.now_s)
        if job.job in self._risks and self._is_in_time(job, kind, level):
            needs_s, left_s = self._risks[job.job]
            return (
                f"at risk: with the deadlines before it {needs_s:.1f} s of the cluster, {left_s:.1f} s left"
            )
        free = f"{100 * level // LEVELS}% of the CPU is free"
        if not self._times_of(job, kind):
            return f"no {kind.value} like it has ended yet; {free}"
        return f"{self._normal(job, kind, level):.2f} of its mean time here, where {free}"


def _level(node: NodeView, now_s: float) -> int:
    """Return the node's free CPU in 1/20, from 1 to 20."""
    return max(1, round(LEVELS * node.spec.free_cpu(now_s)))


AXIS = Axis(
    axis="order",
    name="mimp",
    factory=Mimp,
    summary="jobs that may miss their deadlines come first; other jobs run on nodes where other work "
    "slows them least",
    paper="xu2015 3.1.5.4; Zhang et al. 2014",
    parameters=(
        number(
            "margin",
            "1.2",
            "x",
            "factor on the predicted time of a job before it is compared with the deadline: 1.2 adds "
            "a margin of 20%",
            positive,
        ),
    ),
    rank=73,
)
POLICY = AXIS.named(
    summary="Jobs that may miss their deadlines come first; other jobs run on nodes where other work "
    "slows them least.",
    rank=94,
)


# The model of task times that the order axis MIMP uses.
#
# On some nodes, a foreground load (programs outside the cluster's jobs) leaves only a share of the CPU to
# tasks. Sources: xu2015 3.1.5.4; Zhang et al. 2014. A task takes `fixed + scaled / r` seconds on a node
# with the share r of its CPU free: `fixed` is the time for disk and network, `scaled` the time for
# computing. Both values are fitted by least squares to the measured times of ended tasks.


class TaskTime(NamedTuple):
    """The predicted time of a task: a fixed number of seconds, plus `scaled_s` seconds divided by the free
    share of the CPU."""

    fixed_s: float
    scaled_s: float

    def on(self, free_cpu: float) -> float:
        """Return a task's seconds with this share of CPU free."""
        return self.fixed_s + self.scaled_s / free_cpu


def mean_free_cpu(node: NodeSpec, from_s: float, to_s: float) -> float:
    """Return the mean free share of the node's CPU, by seconds since the run's start."""
    if to_s <= from_s:
        return node.free_cpu(from_s)
    changes = [from_s, *(at_s for at_s, _ in node.foreground if from_s < at_s < to_s), to_s]
    return sum((end - begin) * node.free_cpu(begin) for begin, end in pairwise(changes)) / (to_s - from_s)


class ResidualTimes:
    """Measured times of similar tasks on nodes with different free shares of the CPU, to which a `TaskTime`
    is fitted.

    The instance stores only the sums that the least-squares fit needs.
    """

    __slots__ = ("_count", "_sum_s", "_sum_x", "_sum_xs", "_sum_xx", "_tried")

    def __init__(self) -> None:
        self._count = 0
        self._sum_x = self._sum_s = self._sum_xx = self._sum_xs = 0.0
        self._tried = (inf, 0.0)  # the least and the largest 1 / r

    def add(self, free_cpu: float, took_s: float) -> None:
        """Add a task that took `took_s` seconds on a node with the share `free_cpu` of its CPU free."""
        x = 1.0 / free_cpu
        self._count += 1
        self._sum_x += x
        self._sum_s += took_s
        self._sum_xx += x * x
        self._sum_xs += x * took_s
        self._tried = (min(self._tried[0], x), max(self._tried[1], x))

    def fitted(self) -> TaskTime:
        """Return the fitted `TaskTime`, both parts at least 0.

        `fixed_s` is 0 until two different shares were measured. Without measurements, `scaled_s` is
        UNKNOWN_S.
        """
        if not self._count:
            return TaskTime(0.0, UNKNOWN_S)
        only_scaled = TaskTime(0.0, self._sum_xs / self._sum_xx)
        if self._tried[1] - self._tried[0] < 0.05:
            return only_scaled
        mean_x, mean_s = self._sum_x / self._count, self._sum_s / self._count
        slope = (self._sum_xs / self._count - mean_x * mean_s) / (self._sum_xx / self._count - mean_x**2)
        if slope <= 0:
            return TaskTime(mean_s, 0.0)
        fixed_s = mean_s - slope * mean_x
        return TaskTime(fixed_s, slope) if fixed_s >= 0 else only_scaled

    def __bool__(self) -> bool:
        return self._count > 0


class SlotsLeft(NamedTuple):
    """A group of nodes with the same free share of their CPU: that share (`free_cpu`, from 0 to 1), and the
    total number of slots on these nodes.
    """

    free_cpu: float
    slots: int


def tasks_per_s(task: TaskTime, levels: list[SlotsLeft]) -> float:
    """Return the tasks per second of all slots together."""
    return sum(level.slots / max(1e-9, task.on(level.free_cpu)) for level in levels)


def normal_time(task: TaskTime, free_cpu: float, levels: list[SlotsLeft]) -> float:
    """Return a task's time at this free CPU over its mean on all slots: below 1 is better than average."""
    slots = sum(level.slots for level in levels)
    mean_s = sum(level.slots * task.on(level.free_cpu) for level in levels) / max(1, slots)
    return task.on(free_cpu) / mean_s if mean_s > 0 else 1.0
