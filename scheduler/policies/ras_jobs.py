"""The state that RAS keeps for each job: its demands, the durations of its maps, and its placement in the
last control cycle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from schedbed.cluster.spec import NodeSpec
from schedbed.scheduler.models.ras_placement import (
    PlacedJob,
    Placement,
    ends_within,
    map_utility,
    slots_required,
)
from schedbed.scheduler.models.resource_profiles import (
    PARALLEL_COPIES,
    MapUse,
    NodeDemands,
    ResourceProfile,
    declared_demands,
)
from schedbed.scheduler.view import JobView, View
from schedbed.tasks.specs import NodeId, TaskKind

MAP = TaskKind.MAP


class MeanMap:
    """The mean duration of successful maps, in seconds."""

    __slots__ = ("count", "sum_s")

    def __init__(self) -> None:
        self.count = 0
        self.sum_s = 0.0

    def add(self, duration_s: float) -> None:
        self.count += 1
        self.sum_s += duration_s

    def mean_s(self) -> float | None:
        return self.sum_s / self.count if self.count else None


@dataclass(slots=True)
class Share:
    """The plan for one job, made by a control cycle (planning round) of the policy RAS: the job's utility,
    and the number of its tasks planned for each node.

    `placed`: number of planned maps. `required`: number of map slots with which the job meets its deadline.
    `pending`: number of unfinished maps. `since_s`: start of the cycle. `reducing`: whether the job's reduces
    were planned with the demand of their reduce phase instead of their shuffle.
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
        return (self.maps if kind is MAP else self.reduces).get(node, 0)

    def why(self) -> str:
        """Return a text that explains the placement, to be part of the reason of a launch."""
        goal = f"{self.required} needed" if self.required < self.pending else "as early as possible"
        return (
            f"utility {self.utility:.2f}: {self.placed} of {self.pending} pending maps placed, {goal}, "
            f"cycle at {self.since_s:.1f} s"
        )


class Cycle:
    """A control cycle (planning round) of the policy RAS that is in progress.

    The plan is computed from the cluster's state at the start of the cycle.
    """

    def __init__(self, now_s: float, nodes: Sequence[NodeId], placement: Placement, rounds: int) -> None:
        self.now_s = now_s
        self.nodes = nodes
        self.placement = placement
        self.steps: Iterator[None] = placement.run(rounds)

    def advance(self, steps: int) -> bool:
        """Run at most `steps` steps of the cycle, one job or node each. Return whether the cycle is complete."""
        return sum(1 for _ in islice(self.steps, steps)) < steps

    def share_of(self, job: PlacedJob) -> Share:
        """Return the placement of one job after the end of the cycle, with node names instead of node numbers."""
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
    """A running job with its resource profile, its mean map duration (`maps`) and its last placement
    (`share`).

    `copies`: largest number of maps from which a reduce fetches at the same time. `used`: what the maps have used,
    if the job has no profile.
    """

    __slots__ = ("_capacity", "_demands", "_is_learned", "_profile", "copies", "job", "maps", "share", "used")

    def __init__(self, job: JobView, profile: ResourceProfile | None, capacity: float) -> None:
        self.job = job
        self.maps = MeanMap()
        self.share = Share()
        self._profile = profile
        self.used = MapUse() if profile is None else None
        self._is_learned = False
        self._capacity = capacity
        self.copies = PARALLEL_COPIES if profile is None else profile.parallel_copies
        self._demands: dict[tuple[float, ...], NodeDemands] = {}

    def demands(self, spec: NodeSpec, kind: tuple[float, ...] | None = None) -> NodeDemands:
        """Return the demands on a node in percent of the usable capacity. `kind` is `kind_of(spec)` if known."""
        kind = kind or kind_of(spec)
        known = self._demands.get(kind)
        if known is None:
            job, profile = self.job.spec, self._profile
            if self.used is not None and self._is_learned:
                known = self.used.on(job, spec)
            else:
                known = declared_demands(job, spec) if profile is None else profile.on(spec)
            self._demands[kind] = known = known.of_capacity(self._capacity)
        return known

    def learns(self, maps: int) -> bool:
        """Take what the first `maps` maps used as demand from now on. Return whether demands change by this."""
        if self._is_learned or self.used is None or not self.used.maps >= maps > 0:
            return False
        self._is_learned = True
        self._demands.clear()
        return True

    def utility(self) -> float:
        """Return the utility of the running maps (equation 2), with the need as of the last cycle."""
        maps = self.job.maps
        running = maps.running - maps.killing
        pending = max(1, maps.unstarted + running)
        return map_utility(running, min(max(1, self.share.required), pending), pending)

    def mean_s(self, cluster: MeanMap) -> float | None:
        """Return a map's mean: the job's, else its profile's, else the cluster's, or None."""
        profiled_s = self._profile.map_s if self._profile is not None else None
        return self.maps.mean_s() or profiled_s or cluster.mean_s()

    def work_s(self, now_s: float, mean_s: float | None) -> float | None:
        """Return the seconds that one slot needs for the rest of the maps, or None."""
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
        """Return the job as input of the next control cycle, with its running tasks placed.

        Until a map has ended, the deadline is ignored and each pending map needs a slot. The utility is then
        very low, so the job gets most resources, as in section 4.2 of the paper ("no tasks from Job 7 have
        been completed").
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
    """Return what demands in percent depend on."""
    return (spec.cores, spec.core_speed, spec.disk_bps, spec.memory_bytes, spec.network_bps)


def barred_of(view: View, job: JobView, numbers: Mapping[NodeId, int]) -> frozenset[int]:
    """Return the numbers of nodes that the job avoids for maps or reduces."""
    return frozenset(
        numbers[name]
        for name in job.excluded
        if name in numbers and any(view.avoids(job, view.nodes[name], kind) for kind in TaskKind)
    )
