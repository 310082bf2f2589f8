"""State of RAS for each job: its demands, the durations of its maps, and the result of the last control
cycle."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from schedbed.cluster.spec import NodeSpec
from schedbed.scheduler.models.ras_placement import PlacedJob, Placement
from schedbed.scheduler.models.ras_utility import ends_within, map_utility, slots_required
from schedbed.scheduler.models.resource_profiles import (
    Amounts,
    NodeDemands,
    ResourceProfile,
    declared_demands,
)
from schedbed.scheduler.view import AttemptView, JobView, NodeView, View
from schedbed.tasks.specs import NodeId, TaskKind

MAP = TaskKind.MAP


class MeanMap:
    """The mean duration of ended maps, in seconds."""

    __slots__ = ("count", "sum_s")

    def __init__(self) -> None:
        self.count = 0
        self.sum_s = 0.0

    def add(self, duration_s: float) -> None:
        """Add the duration of a successful map in seconds."""
        self.count += 1
        self.sum_s += duration_s

    def mean_s(self) -> float | None:
        """Return the mean duration in seconds; None before the first map."""
        return self.sum_s / self.count if self.count else None


@dataclass(slots=True)
class Share:
    """The result of a control cycle for one job: its utility, and its placed tasks by kind and node.

    `required`, `pending`: numbers of map slots needed and of unfinished maps. `since_s`: start of the cycle.
    `reducing`: reduces count with their demand after the shuffle.
    """

    utility: float = float("-inf")
    placed: int = 0
    required: int = 0
    pending: int = 0
    since_s: float = 0.0
    reducing: bool = False
    maps: dict[NodeId, int] = field(default_factory=dict)
    reduces: dict[NodeId, int] = field(default_factory=dict)

    def on(self, node: NodeId, kind: TaskKind) -> int:
        """Return the number of tasks of that kind placed on the node."""
        return (self.maps if kind is MAP else self.reduces).get(node, 0)

    def why(self) -> str:
        """Return the reason for the placement as text."""
        goal = f"{self.required} needed" if self.required < self.pending else "as early as possible"
        return (
            f"utility {self.utility:.2f}: {self.placed} of {self.pending} pending maps placed, {goal}, "
            f"cycle at {self.since_s:.1f} s"
        )


class Cycle:
    """A control cycle in progress. It works on the state that the cluster had when the cycle began."""

    def __init__(self, now_s: float, nodes: Sequence[NodeId], placement: Placement, rounds: int) -> None:
        self.now_s = now_s
        self.nodes = nodes
        self.placement = placement
        self.steps: Iterator[None] = placement.play(rounds)

    def advance(self, steps: int) -> bool:
        """Do at most `steps` steps. Return true when the cycle is complete."""
        return sum(1 for _ in islice(self.steps, steps)) < steps

    def share_of(self, job: PlacedJob) -> Share:
        """Return the job's share of the finished placement, with node names instead of numbers."""
        return Share(
            utility=job.utility,
            placed=job.placed,
            required=job.required,
            pending=job.pending,
            since_s=self.now_s,
            reducing=job.reducing,
            maps={self.nodes[node]: count for node, count in job.maps.items()},
            reduces={self.nodes[node]: count for node, count in job.reduces.items()},
        )


class KnownJob:
    """A running job with its resource profile, its map durations and its share of the last placement."""

    __slots__ = ("_capacity", "_demands", "_profile", "job", "maps", "share")

    def __init__(self, job: JobView, profile: ResourceProfile | None, capacity: float) -> None:
        self.job = job
        self.maps = MeanMap()
        self.share = Share()
        self._profile = profile
        self._capacity = capacity
        self._demands: dict[tuple[float, ...], NodeDemands] = {}

    def demands(self, spec: NodeSpec) -> NodeDemands:
        """Return the job's demands on a node with this spec."""
        kind = kind_of(spec)
        known = self._demands.get(kind)
        if known is None:
            profile = self._profile
            known = declared_demands(self.job.spec, spec) if profile is None else profile.on(spec)
            self._demands[kind] = known = known.of_capacity(self._capacity)
        return known

    def utility(self) -> float:
        """Return the utility of the running maps, with the number of slots that the last cycle required
        (equation 2)."""
        maps = self.job.maps
        running = maps.running - maps.killing
        pending = max(1, maps.unstarted + running)
        return map_utility(running, min(max(1, self.share.required), pending), pending)

    def mean_s(self, cluster: MeanMap) -> float | None:
        """Return the mean duration of the job's maps in seconds, else the profile's, else the mean of the
        cluster."""
        profiled_s = self._profile.map_s if self._profile is not None else None
        return self.maps.mean_s() or profiled_s or cluster.mean_s()

    def work_s(self, now_s: float, mean_s: float | None) -> float | None:
        """Return the seconds that the job's unfinished maps need one after the other; None if no mean is
        known."""
        if mean_s is None:
            return None
        running_s = sum(
            max(0.0, mean_s - (now_s - attempt.assigned_s))
            for attempt in self.job.attempts.values()
            if attempt.task.kind is MAP and attempt.state != "killing"
        )
        return running_s + self.job.maps.unstarted * mean_s

    def enters(
        self,
        now_s: float,
        cycle_s: float,
        cluster: MeanMap,
        numbers: Mapping[NodeId, int],
        kinds: tuple[NodeDemands, ...],
        barred: frozenset[int],
    ) -> PlacedJob:
        """Return the job as input of the next control cycle, placed on the nodes where its tasks run.

        `numbers`: numbers of the nodes by name. `kinds`: the job's demands by kind of node. Until one of its
        maps has finished, the goal is ignored: the job needs a slot for each pending map (4.2: "no tasks from
        Job 7 have been completed", so it has a very low utility and gets most resources).
        """
        maps, reduces = self.job.maps, self.job.reduces
        pending = maps.unstarted + maps.running - maps.killing
        work_s = self.work_s(now_s, self.mean_s(cluster))
        goal_s = self.job.deadline_s if self.maps.count else None
        placed = PlacedJob(
            job=self.job.job,
            serial=self.job.serial,
            demands=kinds,
            pending=pending,
            required=slots_required(pending, work_s, None if goal_s is None else goal_s - now_s),
            reducing=not pending or ends_within(work_s, maps.running, cycle_s),
            barred=barred,
        )
        running = 0
        for attempt in self.job.attempts.values():
            number = numbers.get(attempt.node.node)
            if attempt.state != "killing" and number is not None:
                is_map = attempt.task.kind is MAP
                counts = placed.maps if is_map else placed.reduces
                counts[number] = counts.get(number, 0) + 1
                running += not is_map
        placed.reduces_pending = running + (reduces.unstarted if reduces.ready else 0)
        return placed


def kind_of(spec: NodeSpec) -> tuple[float, ...]:
    """Return the node's kind: the values of its spec on which demands depend."""
    return (spec.cores, spec.core_speed, spec.disk_bps, spec.memory_bytes)


def count_of(attempts: Mapping[str, AttemptView]) -> dict[tuple[str, TaskKind], int]:
    """Return the number of live attempts by job and kind, without attempts that are being killed."""
    counts: dict[tuple[str, TaskKind], int] = {}
    for attempt in attempts.values():
        if attempt.state != "killing":
            key = (attempt.task.job.job, attempt.task.kind)
            counts[key] = counts.get(key, 0) + 1
    return counts


def least_use(node: NodeView, know: Callable[[JobView], KnownJob]) -> Amounts:
    """Return the smallest amounts of resources that the node's running tasks may use until one of them ends.

    `know` returns the state of a job, with its demands.
    """
    cpu = io = memory = 0.0
    for attempt in node.attempts.values():
        task = attempt.task
        demands = know(task.job).demands(node.spec)
        if task.kind is MAP:
            cpu, io, memory = cpu + demands.map.cpu, io + demands.map.io, memory + demands.map.memory
        else:
            cpu += min(demands.shuffle.cpu, demands.reduce.cpu)
            memory += min(demands.shuffle.memory, demands.reduce.memory)
    return Amounts(cpu, io, memory)


def barred_of(view: View, job: JobView, numbers: Mapping[NodeId, int]) -> frozenset[int]:
    """Return the numbers of the nodes that the job avoids for any kind of task."""
    return frozenset(
        numbers[name]
        for name in job.excluded
        if name in numbers and any(view.avoids(job, view.nodes[name], kind) for kind in TaskKind)
    )
