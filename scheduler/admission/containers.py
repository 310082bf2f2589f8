"""Containers, as in YARN: a map or reduce needs its declared memory and vcores free on the node."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from schedbed.scheduler.hooks import Kill, Limits, Quiet
from schedbed.scheduler.registry.declarations import Axis
from schedbed.scheduler.registry.parameters import count, duration
from schedbed.scheduler.view import JobView, NodeView, View
from schedbed.tasks.specs import TaskKind

CORE = 100
"""A whole core, in percent. The policy FGCS (`scheduler.admission.fgcs`) needs fractions of a core."""


class Containers:
    """An admission axis that accepts a task if the node has the task's declared memory and vcores free.

    `reserved_cores`: the number of cores on each node that tasks leave free for daemons. An exception is an
    idle node, which accepts any task that does not need more than all its cores. `stall_timeout_s`: if a
    job's maps find no room for this number of seconds, one of the job's reduces is stopped.
    """

    limits = Limits(slots=False, memory=True, vcores=True)
    takes_containers = True

    def __init__(self, *, reserved_cores: int = 0, stall_timeout_s: float = 10.0) -> None:
        self.reserved_cores = reserved_cores
        self._stalls = Stalls(stall_timeout_s)
        self._free_cpu = 0.0  # Of the node in the last call of `room`.
        self.rest_turn = 0  # Grows when a node that had no room may have room again.

    def asks(self, job: JobView, kind: TaskKind) -> float:
        """Return a task's CPU demand in percent of one core."""
        return CORE * job.stage(kind).demand.vcores

    def free_cpu(self, node: NodeView) -> float:
        """Return free CPU in percent of one core, negative if tasks use reserved cores."""
        return CORE * (node.free_vcores - self.reserved_cores)

    def room(self, node: NodeView, kind: TaskKind) -> bool:
        """Implement `Admission.room`: memory is free, and CPU is or no task runs."""
        self._free_cpu = self.free_cpu(node)
        return node.free_memory_bytes > 0 and (self._free_cpu > 0 or not node.attempts)

    @property
    def quiet(self) -> Quiet:
        """Implement `Hooks.quiet`: nodes may rest."""
        return Quiet(rests=self.rests, turn=lambda: self.rest_turn)

    def rests(self, view: View, node: NodeView) -> bool:
        """Return whether the node is full.

        The simulator then offers it nothing until an attempt ends there, or until the policy increases
        `rest_turn`.
        """
        return node.free_memory_bytes <= 0 or (bool(node.attempts) and self.free_cpu(node) <= 0)

    def refuses(self, node: NodeView, job: JobView, kind: TaskKind) -> str | None:
        """Implement `Admission.refuses`: return the lacking resource, or None.

        A reduce is also refused while the job has unstarted maps but none running: waiting for outputs, it
        would occupy their room.
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
        """Implement `Hooks.preempt`: kill reduces whose jobs' maps found no room for `stall_timeout_s`."""
        return self._stalls.kills(view, self._takes_map)


AXIS = Axis(
    axis="admission",
    name="containers",
    factory=Containers,
    summary="a task needs its declared memory and vcores free on the node",
    paper="Hadoop YARN",
    parameters=(
        count("reserved_cores", "0", "number of cores of each node that are kept free for daemons", "cores"),
        duration(
            "stall_timeout",
            "10s",
            "time that a job's maps wait without room on any node, before one of the job's reduces is killed",
        ),
    ),
    rank=10,
)


# Preemption of reduces that occupy the room that maps of the same job need.
#
# Reduces wait for map outputs, so they can occupy all the room that the maps need, for example after a node
# is lost. If a job's maps find no room, its youngest reduce is therefore killed, as in YARN's
# RMContainerAllocator.

TakesMap = Callable[[NodeView, JobView], bool]


PATIENCE = 3
"""The number of timeouts after which a reduce is stopped for maps that do not start despite room."""


class Stalls:
    """A record of the jobs whose maps wait while their reduces run, and of the time at which each wait began.

    If no node has room for a job's maps for `timeout_s` seconds, one reduce of the job is killed. If the maps
    have waited for `patience` times `timeout_s`, one reduce is killed even if there is room. If `patience` is
    None, this second rule is off.
    """

    def __init__(self, timeout_s: float, patience: int | None = PATIENCE) -> None:
        self.timeout_s = timeout_s
        self.patience_s = math.inf if patience is None else patience * timeout_s
        self._waits_s: dict[str, float] = {}  # Time at which the wait began, by job.
        self._stalls_s: dict[str, float] = {}  # Time since which no node has room for a map, by job.

    def kills(self, view: View, takes_map: TakesMap) -> list[Kill]:
        """Return kills of reduces that blocked maps for too long, at most one per job."""
        kills: list[Kill] = []
        now_s, waits_s, stalls_s = view.now_s, self._waits_s, self._stalls_s
        self._waits_s, self._stalls_s = {}, {}
        for job in view.jobs.values():
            if not _waits(job):
                continue
            name = job.job
            self._waits_s[name] = waited_s = waits_s.get(name, now_s)
            why = ""
            if not _has_room(view, job, takes_map):
                self._stalls_s[name] = stalled_s = stalls_s.get(name, now_s)
                if now_s - stalled_s >= self.timeout_s:
                    why = "its job's maps find no room"
            if not why and now_s - waited_s >= self.patience_s:
                why = "its job's maps are kept back"
            if why and not job.reduces.killing:
                reduces = [a for a in job.attempts.values() if a.task.kind is TaskKind.REDUCE]
                kills.append(Kill(max(reduces, key=lambda attempt: attempt.serial), why))
                self._waits_s[name] = now_s
        return kills


def _waits(job: JobView) -> bool:
    """Return whether the job's reduces run while none of its unstarted maps does."""
    maps = job.maps
    return maps.unstarted > 0 and not maps.running and job.reduces.running > 0


def _has_room(view: View, job: JobView, takes_map: TakesMap) -> bool:
    return any(
        takes_map(node, job) and not view.avoids(job, node, TaskKind.MAP) for node in view.nodes.values()
    )
