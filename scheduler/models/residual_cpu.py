"""The model of task times that the order axis MIMP uses.

On some nodes, a foreground load (programs outside the cluster's jobs) leaves only a share of the CPU to
tasks. Sources: xu2015 3.1.5.4; Zhang et al. 2014. A task takes `fixed + scaled / r` seconds on a node with
the share r of its CPU free: `fixed` is the time for disk and network, `scaled` the time for computing. Both
values are fitted by least squares to the measured times of ended tasks.
"""

from __future__ import annotations

from itertools import pairwise
from math import inf
from typing import NamedTuple

from schedbed.cluster.spec import NodeSpec
from schedbed.scheduler.models.task_times import UNKNOWN_S


class TaskTime(NamedTuple):
    """The predicted time of a task: a fixed number of seconds, plus `scaled_s` seconds divided by the free
    share of the CPU."""

    fixed_s: float
    scaled_s: float

    def on(self, free_cpu: float) -> float:
        """Return the seconds that a task takes on a node with the share `free_cpu` of its CPU free."""
        return self.fixed_s + self.scaled_s / free_cpu


def mean_free_cpu(node: NodeSpec, from_s: float, to_s: float) -> float:
    """Return the mean free share of the node's CPU from the time `from_s` to the time `to_s`.

    Times are in seconds since the run's start.
    """
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
        """Return the `TaskTime` fitted to the measurements. Neither of its two parts is negative.

        Until tasks with two different shares were added, `fixed_s` is 0. Without measurements, `scaled_s` is
        the constant UNKNOWN_S.
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
    """Return the number of tasks per second that the slots of all node groups in `levels` complete together.

    `task` is the time of each task.
    """
    return sum(level.slots / max(1e-9, task.on(level.free_cpu)) for level in levels)


def normal_time(task: TaskTime, free_cpu: float, levels: list[SlotsLeft]) -> float:
    """Return a task's time on nodes with the free CPU share `free_cpu`, divided by the task's mean time over
    the slots of all node groups in `levels`.

    A result below 1 means that such nodes are better than average for the task.
    """
    slots = sum(level.slots for level in levels)
    mean_s = sum(level.slots * task.on(level.free_cpu) for level in levels) / max(1, slots)
    return task.on(free_cpu) / mean_s if mean_s > 0 else 1.0
