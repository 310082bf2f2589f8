"""The plan of BalancedPool: jobs divided into two pools with Johnson's order inside, with the shortest
estimated makespan.

xu2015 3.1.4.2 (Verma, Cherkasova and Campbell 2012): jobs are divided into a pool of small jobs and a pool of
big jobs, and each pool runs its jobs in Johnson's order (Johnson 1954) on its own slots. The chosen division
is the one whose later pool ends first. The thesis tests a division with SimMR; this module estimates it: a
stage on s slots takes ceil(tasks / s) x the mean time of a task, the map stages of a pool follow one another,
and a reduce stage starts after its job's map stage and after the previous reduce stage.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import NamedTuple


class PlannedStages(NamedTuple):
    """The numbers of remaining maps and reduces of a job, and the mean time of a task of each kind in
    seconds."""

    job: str
    maps: int
    map_s: float
    reduces: int
    reduce_s: float

    def on(self, maps: int, reduces: int) -> tuple[float, float]:
        """Return the durations in seconds of the map stage and the reduce stage on these numbers of slots."""
        return ceil(self.maps / maps) * self.map_s, ceil(self.reduces / reduces) * self.reduce_s

    @property
    def size_s(self) -> float:
        """Return the size of the job: the slot seconds of all remaining tasks."""
        return self.maps * self.map_s + self.reduces * self.reduce_s


class Pool2(NamedTuple):
    """A pool of a plan: its numbers of slots, its jobs in order, and its estimated makespan in seconds."""

    maps: int
    reduces: int
    jobs: tuple[str, ...]
    makespan_s: float


def johnson(jobs: Sequence[PlannedStages], maps: int, reduces: int) -> tuple[list[PlannedStages], float]:
    """Return the jobs in Johnson's order on these numbers of slots, and the estimated makespan in seconds.

    The jobs whose map stage is shorter than their reduce stage come first, shortest map stage first. All
    other jobs follow, longest reduce stage first.
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
    """Return the plan with the shortest estimated makespan.

    The plan is one pool of all slots, or two pools, the first with the smaller jobs. `steps`: number of
    shares of the slots to try for the first pool. For each share, bisection over the jobs by size finds the
    division at which the makespans of the two pools are closest, since a job that moves to the first pool
    makes this pool longer and the second pool shorter.
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
