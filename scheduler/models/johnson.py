"""The planner of BalancedPool: divides jobs into at most two pools so that the estimated makespan is
shortest.

Source: the thesis xu2015, section 3.1.4.2 (Verma, Cherkasova and Campbell 2012). One pool runs the small
jobs, a second the big ones, each in Johnson's order (Johnson 1954) with a part of the slots.

As the thesis simulates each division with SimMR, so does this module, task by task: each map takes the slot that is
free first, in the order of the jobs; each reduce takes the reduce slot that is free first, after its job's maps. A
task takes the mean time of its kind. Only Johnson's order counts whole stages: ceil(tasks / slots) x that time.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from math import ceil
from typing import NamedTuple


class PlannedStages(NamedTuple):
    """The remaining work of a job: its numbers of remaining maps and reduces, and the mean time of each kind
    of task in seconds."""

    job: str
    maps: int
    map_s: float
    reduces: int
    reduce_s: float

    def on(self, maps: int, reduces: int) -> tuple[float, float]:
        """Return the seconds that the map stage takes on `maps` slots, and the reduce stage on `reduces` slots."""
        return ceil(self.maps / maps) * self.map_s, ceil(self.reduces / reduces) * self.reduce_s

    @property
    def size_s(self) -> float:
        """Return the job's remaining work in slot seconds."""
        return self.maps * self.map_s + self.reduces * self.reduce_s


class PlannedPool(NamedTuple):
    """A pool of a plan: its numbers of map and reduce slots, the ids of its jobs in order, and its estimated
    makespan in seconds."""

    maps: int
    reduces: int
    jobs: tuple[str, ...]
    makespan_s: float


def johnson(jobs: Sequence[PlannedStages], maps: int, reduces: int) -> tuple[list[PlannedStages], float]:
    """Return jobs in Johnson's order and their makespan: maps shorter than reduces first, shortest maps
    first.

    All other jobs follow, longest reduce stage first.
    """
    staged = [(*job.on(maps, reduces), number, job) for number, job in enumerate(jobs)]
    early = sorted(each for each in staged if each[0] < each[1])
    late = sorted((each for each in staged if each[0] >= each[1]), key=lambda each: (-each[1], each[2]))
    queue = [each[3] for each in (*early, *late)]
    return queue, simulated_s(queue, maps, reduces)


Slots = list[tuple[float, int]]
"""A heap of slots: how many become free at a time, in seconds from now."""


def simulated_s(queue: Sequence[PlannedStages], maps: int, reduces: int) -> float:
    """Return when the last task ends, in seconds from now, if jobs run in this order on slots that are free now."""
    free: tuple[Slots, Slots] = [(0.0, maps)], [(0.0, reduces)]
    end_s = 0.0
    for job in queue:
        maps_end_s = _run(free[0], job.maps, job.map_s, 0.0)
        end_s = max(end_s, maps_end_s, _run(free[1], job.reduces, job.reduce_s, maps_end_s))
    return end_s


def _run(free: Slots, tasks: int, each_s: float, from_s: float) -> float:
    """Run tasks from `from_s` on in the slots that are free first, and return when the last one ends."""
    last_s = from_s
    while tasks:
        free_s, count = heappop(free)
        starts = min(count, tasks)
        if count > starts:
            heappush(free, (free_s, count - starts))
        last_s = max(free_s, from_s) + each_s
        heappush(free, (last_s, starts))
        tasks -= starts
    return last_s


def balanced_pools(
    jobs: Sequence[PlannedStages], maps: int, reduces: int, steps: int
) -> tuple[PlannedPool, ...]:
    """Return the plan with the shortest makespan: one pool, or one for small and one for big jobs.

    For each of `steps` sizes of the small pool, bisection over the jobs by size finds where to divide them so
    that both pools end at about the same time.
    """
    ordered, alone_s = johnson(jobs, maps, reduces)
    best = (PlannedPool(maps, reduces, tuple(job.job for job in ordered), alone_s),)
    best_s = alone_s
    by_size = sorted(jobs, key=lambda job: (job.size_s, job.job))
    for step in range(1, steps + 1):
        few_maps = round(maps * step / (steps + 1))
        few_reduces = round(reduces * step / (steps + 1)) if reduces else 0
        sizes = ((few_maps, few_reduces), (maps - few_maps, reduces - few_reduces))
        if few_maps < 1 or maps - few_maps < 1 or (reduces and not 1 <= few_reduces < reduces):
            continue
        low, high = 1, len(by_size) - 1
        while low <= high:
            cut = (low + high) // 2
            pools = []
            for members, (own_maps, own_reduces) in zip((by_size[:cut], by_size[cut:]), sizes, strict=True):
                queue, end_s = johnson(members, own_maps, own_reduces)
                pools.append(PlannedPool(own_maps, own_reduces, tuple(job.job for job in queue), end_s))
            longer_s = max(pool.makespan_s for pool in pools)
            if longer_s < best_s:
                best, best_s = tuple(pools), longer_s
            if pools[0].makespan_s < pools[1].makespan_s:
                low = cut + 1
            else:
                high = cut - 1
    return best
