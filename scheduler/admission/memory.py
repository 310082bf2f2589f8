"""Containers as YARN's DefaultResourceCalculator counts them: a task needs its memory free, vcores are not compared."""

from __future__ import annotations

from math import inf

from schedbed.scheduler.admission.containers import Containers
from schedbed.scheduler.hooks import QUIET, Limits, Quiet
from schedbed.scheduler.registry.declarations import Axis
from schedbed.scheduler.registry.parameters import duration
from schedbed.scheduler.view import NodeView


class MemoryContainers(Containers):
    """An admission axis that accepts a task if the node has the task's declared memory free.

    `counts_vcores`: true after `count_vcores`, for an order that compares dominant resources.
    """

    takes_containers = True
    limits = Limits(slots=False, memory=True, vcores=False)

    def __init__(self, *, stall_timeout_s: float = 10.0) -> None:
        super().__init__(stall_timeout_s=stall_timeout_s)
        self.counts_vcores = False

    @property
    def quiet(self) -> Quiet:
        """Implement `Hooks.quiet`."""
        return QUIET

    def count_vcores(self) -> None:
        """Compare vcores, too (DominantResourceCalculator)."""
        self.counts_vcores = True
        self.limits = Containers.limits

    def free_cpu(self, node: NodeView) -> float:
        """Return free CPU in percent of one core, or infinity if vcores are not compared."""
        return super().free_cpu(node) if self.counts_vcores else inf


AXIS = Axis(
    axis="admission",
    name="memory",
    factory=MemoryContainers,
    summary="a task needs its declared memory free on the node; vcores are not compared",
    paper="Hadoop YARN, DefaultResourceCalculator",
    parameters=(
        duration(
            "stall_timeout",
            "10s",
            "time that a job's maps wait without room on any node, before one of the job's reduces is killed",
        ),
    ),
    rank=12,
)
