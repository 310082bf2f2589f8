"""Containers, as in YARN: a task of either kind needs its declared memory and vcores on the node."""

from __future__ import annotations

from collections.abc import Sequence

from schedbed.scheduler.admission.stalls import Stalls
from schedbed.scheduler.policy import Kill, Limits
from schedbed.scheduler.registry.declarations import Axis
from schedbed.scheduler.registry.parameters import count, duration
from schedbed.scheduler.view import JobView, NodeView, View
from schedbed.tasks.specs import TaskKind

CORE = 100
"""One core, in percent. FGCS (`scheduler.admission.fgcs`) needs fractions of a core."""


class Containers:
    """Admission axis: declared memory and vcores.

    `reserved_cores`: the number of cores of each node reserved for daemons; an idle node still accepts any
    task. `stall_timeout_s`: the number of seconds that a job's maps find no room before one of the job's
    reduces is stopped.
    """

    limits = Limits(slots=False, memory=True, vcores=True)
    elidable = True  # Heartbeats that report no change do not affect its answers.

    def __init__(self, *, reserved_cores: int = 0, stall_timeout_s: float = 10.0) -> None:
        self.reserved_cores = reserved_cores
        self._stalls = Stalls(stall_timeout_s)
        self._free_cpu = 0.0  # Of the node in the last call of `room`.
        self.rest_turn = 0  # Grows when a node that had no room may have room again.

    def asks(self, job: JobView, kind: TaskKind) -> float:
        """Return the CPU demand of a task of this kind of the job, in percent of one core."""
        return CORE * job.stage(kind).demand.vcores

    def free_cpu(self, node: NodeView) -> float:
        """Return the node's unclaimed CPU in percent of one core; negative if reserved cores are in use."""
        return CORE * (node.free_vcores - self.reserved_cores)

    def room(self, node: NodeView, kind: TaskKind) -> bool:
        """Implement `Admission.room`: return whether memory is free, and CPU is free or the node is idle."""
        self._free_cpu = self.free_cpu(node)
        return node.free_memory_bytes > 0 and (self._free_cpu > 0 or not node.attempts)

    def rests(self, node: NodeView) -> bool:
        """Return whether the node has no room until one of its attempts ends or `rest_turn` grows.

        The simulator skips offers of such a node.
        """
        return node.free_memory_bytes <= 0 or (bool(node.attempts) and self.free_cpu(node) <= 0)

    def refuses(self, node: NodeView, job: JobView, kind: TaskKind) -> str | None:
        """Implement `Admission.refuses`: return the lacking resource as text, or None if the task fits.

        A reduce is also refused while maps of its job are unstarted and none runs, so that the maps get the
        room.
        """
        lacks = self._lacks(node, job, kind, self._free_cpu)
        if lacks is not None:
            return f"not enough {lacks}"
        if kind is TaskKind.REDUCE and job.maps.unstarted and not job.maps.running:
            return "its maps need the room first"
        return None

    def _lacks(self, node: NodeView, job: JobView, kind: TaskKind, free_cpu: float) -> str | None:
        demand = job.stage(kind).demand
        if demand.memory_bytes > node.free_memory_bytes:
            return "memory is free"
        asks = self.asks(job, kind)
        if asks <= free_cpu:
            return None
        if not node.attempts and demand.vcores <= node.spec.cores:
            return None
        return self._short_of_cpu(asks, free_cpu)

    def _short_of_cpu(self, asks: float, free_cpu: float) -> str:
        return "vcores are free"

    def _takes_map(self, node: NodeView, job: JobView) -> bool:
        return node.alive and self._lacks(node, job, TaskKind.MAP, self.free_cpu(node)) is None

    def preempt(self, view: View) -> Sequence[Kill]:
        """Implement `Hooks.preempt`: stop reduces whose job's maps have found no room for too long."""
        return self._stalls.kills(view, self._takes_map)


AXIS = Axis(
    axis="admission",
    name="containers",
    factory=Containers,
    summary="memory and vcores of each task",
    paper="Hadoop YARN",
    parameters=(
        count("reserved_cores", "0", "of each node, for daemons", "cores"),
        duration("stall_timeout", "10s", "until maps without room take that of their job's reduces"),
    ),
    rank=10,
)
