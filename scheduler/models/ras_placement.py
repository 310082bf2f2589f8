"""The placement algorithm of the policy RAS (polo2011 Algorithm 1): computes the number of maps and reduces
of each job to run on each node, within the node's capacity.

Decisions where the paper leaves a choice:

- Reduces are placed first, even if maps run. Maps that no longer fit in addition to the reduces are removed
  from the placement.
- A node is given reduces only if all of them fit in each of their phases, so that the switch from shuffle to
  reduce never overloads the node. A reduce in its shuffle must also leave room for the largest map of any
  job, so that reduces that wait for maps never keep those maps from running.
- A job gives up a task on a node only while the job's utility stays at least that of the job with the lowest
  utility among the other jobs that could run there. This is the paper's text; the paper's listing requires a
  job that fits already, which excludes large tasks.
- No job gives up its last map to a job without maps, since the lowest utility would not change.
- A round that does not improve the sorted utilities is undone, and no further round follows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import ceil, inf, log

from schedbed.scheduler.models.resource_profiles import FULL, NOTHING, Amounts, NodeDemands
from schedbed.scheduler.order.sorted_keys import SortedKeys

_FITS = FULL + 1e-6  # Sums of fractions can exceed 100 slightly.
_NONE = -float("inf")


@dataclass(eq=False, slots=True)
class PlacedJob:
    """A job in one control cycle of RAS, with its demands by kind of hardware and its planned tasks by node.

    `pending` and `reduces_pending` are unfinished tasks, the latter 0 while reduces may not start. `required`
    map slots meet the deadline. `reducing`: planned reduces have the demand of their reduce phase, not of the
    shuffle. `barred` nodes must not run more tasks of the job.
    """

    job: str
    serial: int
    demands: Sequence[NodeDemands]
    pending: int
    required: int
    reduces_pending: int = 0
    reducing: bool = False
    barred: frozenset[int] = frozenset()
    maps: dict[int, int] = field(default_factory=dict)  # by node
    reduces: dict[int, int] = field(default_factory=dict)
    placed: int = 0
    reduces_placed: int = 0
    utility: float = _NONE

    def key(self) -> tuple[float, int]:
        """Return the sort key: lower utility first."""
        return (self.utility, self.serial)


class Placement:
    """The plan of one control cycle of RAS, from the tasks that run already.

    `kinds[i]` is node i's index into a job's `demands`, `used[i]` its planned CPU, I/O and memory in percent.
    """

    def __init__(self, jobs: Sequence[PlacedJob], kinds: Sequence[int]) -> None:
        self.jobs = jobs
        self.kinds = kinds
        nodes = range(len(kinds))
        self.used = [[0.0] * len(NOTHING) for _ in nodes]
        # The demand of reduces: their largest in any phase, and that of their current phase.
        self._held = [[0.0] * len(NOTHING) for _ in nodes]
        self._present = [[0.0] * len(NOTHING) for _ in nodes]
        self._mapped: list[dict[PlacedJob, None]] = [{} for _ in nodes]  # jobs with maps there
        self._wanting: SortedKeys[PlacedJob] = SortedKeys()  # Jobs with unplaced maps.
        for job in jobs:
            job.placed, job.reduces_placed = sum(job.maps.values()), sum(job.reduces.values())
            for node, count in job.maps.items():
                self._take(node, job.demands[kinds[node]].map, count)
                self._mapped[node][job] = None
            for node, count in job.reduces.items():
                self._reserve(job, node, count)
            self._valued(job)

    def utilities(self) -> list[float]:
        """Return the utilities of jobs with pending maps, lowest first. A greater list is better (equation 4)."""
        return sorted(job.utility for job in self.jobs if job.pending)

    def run(self, rounds: int) -> Iterator[None]:
        """Place pending reduces, then move maps in at most `rounds` rounds. Yields so that the caller can
        work between.
        """
        yield from self._place_reduces()
        for node in range(len(self.kinds)):
            self._trim(node)
        best = self.utilities()
        for _ in range(rounds):
            before = [(job.maps.copy(), job.placed, job.utility) for job in self.jobs]
            for node in range(len(self.kinds)):
                self._improve(node)
                yield
            utilities = self.utilities()
            if utilities <= best:
                for job, (maps, placed, utility) in zip(self.jobs, before, strict=True):
                    job.maps, job.placed, job.utility = maps, placed, utility
                return
            best = utilities

    # Reduces

    def _place_reduces(self) -> Iterator[None]:
        """Place pending reduces until none is left or fits (Algorithm 1, lines 1 to 8). Yields after each job."""
        nodes = range(len(self.kinds))
        total = [0] * len(nodes)
        for job in self.jobs:
            for node, count in job.reduces.items():
                total[node] += count
        largest = [self._largest_map(kind) for kind in range(max(self.kinds, default=-1) + 1)]
        for job in self.jobs:
            going, mine = job.reduces_placed < job.reduces_pending, job.reduces
            while going:
                going = False
                for node in sorted(nodes, key=lambda node: (total[node], mine.get(node, 0))):
                    if self._room_for_reduce(job, node, largest[self.kinds[node]]):
                        self._put_reduce(job, node)
                        total[node] += 1
                        going = True
                        if job.reduces_placed == job.reduces_pending:
                            going = False
                            break
            self._valued(job)
            yield

    def _largest_map(self, kind: int) -> Amounts:
        """Return the largest demand for each resource by a map of any job on nodes of the kind with index `kind`."""
        maps = [job.demands[kind].map for job in self.jobs if job.pending]
        return Amounts(*map(max, zip(*maps, strict=True))) if maps else Amounts()

    def _most(self, job: PlacedJob, node: int) -> Amounts:
        """Return what the plan provides for a reduce: its reduce phase, or a shuffle with the most fetches."""
        demands = job.demands[self.kinds[node]]
        return demands.reduce if job.reducing else demands.shuffling(demands.copies)

    def _room_for_reduce(self, job: PlacedJob, node: int, largest: Amounts) -> bool:
        if node in job.barred or not _fits(self._held[node], self._hold(job, node)):
            return False
        if job.reducing:
            return True
        present = self._present[node]
        return _fits([a + b for a, b in zip(present, self._most(job, node), strict=True)], largest)

    def _hold(self, job: PlacedJob, node: int) -> Amounts:
        """Return the largest demand of a reduce in any phase, by resource."""
        demands = job.demands[self.kinds[node]]
        return Amounts(*map(max, demands.shuffling(demands.copies), demands.reduce))

    def _put_reduce(self, job: PlacedJob, node: int) -> None:
        job.reduces[node] = job.reduces.get(node, 0) + 1
        job.reduces_placed += 1
        self._reserve(job, node, 1)

    def _reserve(self, job: PlacedJob, node: int, count: int) -> None:
        self._take(node, self._reduce_demand(job, node), count)
        _add(self._held[node], self._hold(job, node), count)
        _add(self._present[node], self._most(job, node), count)

    def _reduce_demand(self, job: PlacedJob, node: int) -> Amounts:
        demands = job.demands[self.kinds[node]]
        return demands.reduce if job.reducing else demands.shuffling(job.placed)

    # Maps

    def _trim(self, node: int) -> None:
        """Remove maps, of jobs with high utility first, from a node overloaded by new reduces or profiles."""
        while max(self.used[node]) > _FITS:
            out = self._richest(node)
            if out is None:
                return
            self._remove(out, node)

    def _improve(self, node: int) -> None:
        """Move room from jobs with high utility to those with low utility (Algorithm 1, lines 11 to 23).

        Maps of the highest go until it would fall below the lowest other that could use the room. Then maps
        of the lowest are placed until none fits.
        """
        while (out := self._richest(node)) is not None:
            poorest = self._poorest_of_others(node, out)
            if poorest is None:
                break
            self._remove(out, node)
            if out.utility < poorest.utility or out.utility == _NONE:
                self._put(out, node)
                break
        while (job := self._poorest(node)) is not None:
            self._put(job, node)

    def _richest(self, node: int) -> PlacedJob | None:
        return max(self._mapped[node], key=PlacedJob.key, default=None)

    def _poorest(self, node: int) -> PlacedJob | None:
        used, kind = self.used[node], self.kinds[node]
        for job in self._wanting:
            if _fits(used, job.demands[kind].map) and self._shuffle_fits(job, node):
                return job
        return None

    def _poorest_of_others(self, node: int, out: PlacedJob) -> PlacedJob | None:
        """Return the lowest job other than `out` whose map would fit beside the node's reduces alone, or None."""
        reduces, kind = self._present[node], self.kinds[node]
        for job in self._wanting:
            if job is not out and node not in job.barred and _fits(reduces, job.demands[kind].map):
                return job
        return None

    def _shuffle_fits(self, job: PlacedJob, node: int) -> bool:
        """Return whether the job's reduces have I/O and network left, on all nodes, to fetch one more map."""
        if node in job.barred:
            return False
        if job.reducing or not job.reduces:
            return True
        for place, count in job.reduces.items():
            demands = job.demands[self.kinds[place]]
            if job.placed < demands.copies:
                used, fetch, own = (
                    self.used[place],
                    demands.shuffle,
                    demands.map if place == node else NOTHING,
                )
                if used[1] + count * fetch.io + own.io > _FITS:
                    return False
                if used[3] + count * fetch.network + own.network > _FITS:
                    return False
        return True

    def _put(self, job: PlacedJob, node: int) -> None:
        job.maps[node] = job.maps.get(node, 0) + 1
        self._mapped[node][job] = None
        self._take(node, job.demands[self.kinds[node]].map, 1)
        self._fetch(job, 1)
        job.placed += 1
        self._valued(job)

    def _remove(self, job: PlacedJob, node: int) -> None:
        job.maps[node] -= 1
        if not job.maps[node]:
            del job.maps[node], self._mapped[node][job]
        self._take(node, job.demands[self.kinds[node]].map, -1)
        job.placed -= 1
        self._fetch(job, -1)
        self._valued(job)

    def _fetch(self, job: PlacedJob, sign: int) -> None:
        """Add (1) or remove (-1) what fetching one more map's output takes, on all nodes with reduces."""
        if not job.reducing:
            for place, count in job.reduces.items():
                demands = job.demands[self.kinds[place]]
                if job.placed < demands.copies:
                    _add(self.used[place], demands.shuffle.moving, sign * count)

    def _take(self, node: int, amounts: Amounts, count: int) -> None:
        _add(self.used[node], amounts, count)

    def _valued(self, job: PlacedJob) -> None:
        """Recompute the job's utility (equation 1), and its place among those with unplaced maps."""
        job.utility = reduce_utility(job.reduces_placed, job.reduces_pending)
        job.utility += map_utility(job.placed, job.required, job.pending)
        if job.placed < job.pending:
            self._wanting.put(job, job.key())
        else:
            self._wanting.drop(job)


def _fits(used: Sequence[float], amounts: Amounts) -> bool:
    cpu, io, memory, network = amounts
    if used[0] + cpu > _FITS or used[1] + io > _FITS:
        return False
    return used[2] + memory <= _FITS and used[3] + network <= _FITS


def _add(used: list[float], amounts: Amounts, count: int) -> None:
    used[0] += count * amounts.cpu
    used[1] += count * amounts.io
    used[2] += count * amounts.memory
    used[3] += count * amounts.network


# The formulas of the policy RAS (polo2011 3.2 and 3.3): the number of slots that a job needs to meet its
# goal, and the utility of a number of slots.

_SLACK = 1e-9  # Rounding can put a whole number slightly above itself.


def slots_required(pending: int, work_s: float | None, left_s: float | None) -> int:
    """Return the map slots to meet the goal, all `pending` if it has passed or anything is unknown (None).

    Unlike xu2015's equation 6, which gives additional slots, the slots of running maps are included.
    """
    if left_s is None or left_s <= 0 or work_s is None:
        return max(1, pending)
    return max(1, min(pending, ceil(work_s / left_s - _SLACK)))


def ends_within(work_s: float | None, running: int, period_s: float) -> bool:
    """Return whether running maps finish the work within the period (Algorithm 1, line 26). None: unknown."""
    return work_s is not None and running > 0 and work_s / running <= period_s


def map_utility(allocated: int, required: int, pending: int) -> float:
    """Return the utility of map slots (equation 2): -inf for none, 0 for `required`, 1 for `pending` or more.

    `required` is from 1 to `pending`; if both are equal, the result is 1.
    """
    if allocated >= pending:
        return 1.0
    if allocated <= 0:
        return -inf
    if allocated >= required:
        return (allocated - required) / (pending - required)
    return log(allocated) / log(required) - 1


def reduce_utility(allocated: int, pending: int) -> float:
    """Return the utility of reduce slots (equation 3): -1 for none, the limit in the paper's text, to 0."""
    if allocated >= pending:
        return 0.0
    if allocated <= 0:
        return -1.0
    return log(allocated) / log(pending) - 1
