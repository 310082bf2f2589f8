"""BalancedPool's plan: Johnson's order, an estimate of its makespan, and the split into two pools that ends earliest.

xu2015 3.1.4.2 (Verma, Cherkasova and Campbell 2012): jobs are split into a pool of small and a pool of big ones, and
each is run in Johnson's order (Johnson 1954) on its own slots. The chosen split is the one whose longer pool ends
first. The thesis tests a split with SimMR; here it is estimated: a stage on s slots takes ceil(tasks / s) x the mean
seconds of a task, maps of a pool follow one another, and reduces start after their job's maps and after the reduces
before them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import NamedTuple


class PlannedStages(NamedTuple):
    """The remaining tasks of a job of each kind, and their mean seconds."""

    job: str
    maps: int
    map_s: float
    reduces: int
    reduce_s: float

    def on(self, maps: int, reduces: int) -> tuple[float, float]:
        """Return the seconds of both stages on that many slots."""
        return ceil(self.maps / maps) * self.map_s, ceil(self.reduces / reduces) * self.reduce_s

    @property
    def size_s(self) -> float:
        """Return the slot seconds of all tasks."""
        return self.maps * self.map_s + self.reduces * self.reduce_s


class Pool2(NamedTuple):
    """A pool of a plan: its slots, its jobs in order, and the estimated makespan."""

    maps: int
    reduces: int
    jobs: tuple[str, ...]
    makespan_s: float


def johnson(jobs: Sequence[PlannedStages], maps: int, reduces: int) -> tuple[list[PlannedStages], float]:
    """Return the jobs in Johnson's order on those slots, and the makespan.

    First come the jobs whose maps are the shorter stage, shortest maps first; then the others, longest reduces first.
    """
    staged = [(*job.on(maps, reduces), number, job) for number, job in enumerate(jobs)]
    early = sorted(each for each in staged if each[0] < each[1])
    late = sorted((each for each in staged if each[0] >= each[1]), key=lambda each: (-each[1], each[2]))
    maps_end_s = end_s = 0.0
    for map_s, reduce_s, _, _ in (*early, *late):
        maps_end_s += map_s
        end_s = max(end_s, maps_end_s) + reduce_s
    return [each[3] for each in (*early, *late)], end_s


def balanced_pools(jobs: Sequence[PlannedStages], maps: int, reduces: int, steps: int) -> tuple[Pool2, ...]:
    """Return the plan that ends earliest: one pool of all slots, or two pools, the first with the smaller jobs.

    `steps` shares of the slots are tried for the first pool. For each share, bisection finds the cut of the jobs at
    which the makespans are closest: moving a job to the first pool makes it longer and the second shorter.
    """
    ordered, alone_s = johnson(jobs, maps, reduces)
    best = (Pool2(maps, reduces, tuple(job.job for job in ordered), alone_s),)
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
                pools.append(Pool2(own_maps, own_reduces, tuple(job.job for job in queue), end_s))
            longer_s = max(pool.makespan_s for pool in pools)
            if longer_s < best_s:
                best, best_s = tuple(pools), longer_s
            if pools[0].makespan_s < pools[1].makespan_s:
                low = cut + 1
            else:
                high = cut - 1
    return best
