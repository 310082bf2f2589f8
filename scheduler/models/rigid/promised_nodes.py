"""The plan of Slurm's sched/backfill over select/cons_tres: reservations of whole nodes that it names.

Source: Slurm 22.05.8, `_attempt_backfill` of plugins/sched/backfill, `_will_run_test` of plugins/select/cons_common
and `_eval_nodes` of plugins/select/cons_tres. A node's CPUs are its map slots. Nodes are in the order of their names.
Not modeled: bf_window (a plan looks ahead without end), features, weights and topologies of nodes.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from schedbed.scheduler.models.rigid.promised_slots import Places
from schedbed.tasks.specs import NodeId, id_key

YEAR_S = 365 * 86_400.0
"""The run time of a job without a requested time, as for a job without a limit in Slurm (YEAR_MINUTES)."""

Nodes = int
"""A set of nodes: bit i is set for the node at place i, as in Slurm's bitmaps."""


class Period(NamedTuple):
    """A period of the plan, and the nodes that no reservation keeps in it (`node_space_map_t` in Slurm)."""

    begin_s: float
    end_s: float
    nodes: Nodes


class RunningJob(NamedTuple):
    """A running job's promised end, a number for the order of equal ends, and the job's slots by node."""

    end_s: float
    serial: int
    slots: Mapping[int, int]


class NodePlan:
    """The plan of one cycle. A reservation keeps its nodes whole, from its start until its end.

    `slots`: the slots of each live node. `jobs`: the promised end in s of each running job, and its slots by node.
    `epoch_s`: the time of Slurm's clock at time 0, which matters for multiples of the next two.
    `resolution_s`: the times of reservations are rounded down to multiples of it. `window_s`: see `_will_run`.
    `kill_wait_s`: a job that is over its promise is taken to end this long after it.
    """

    def __init__(
        self,
        now_s: float,
        slots: Mapping[NodeId, int],
        jobs: Iterable[tuple[float, Places]],
        *,
        epoch_s: float = 0.0,
        resolution_s: float = 0.0,
        window_s: float = 30.0,
        kill_wait_s: float = 30.0,
    ) -> None:
        self._epoch_s, self._resolution_s = epoch_s, resolution_s
        self._now_s, self._window_s, self._kill_wait_s = now_s, window_s, kill_wait_s
        self._names = sorted(slots, key=id_key)
        self._index = {name: i for i, name in enumerate(self._names)}
        self._all: Nodes = (1 << len(self._names)) - 1
        self._free = [slots[name] for name in self._names]
        self._running: list[RunningJob] = []
        self._periods = [Period(now_s, now_s + 100 * YEAR_S, self._all)]
        for end_s, places in jobs:
            self._run(end_s, {self._index[name]: n for name, n in places.items() if name in self._index})

    def _run(self, end_s: float, slots: Mapping[int, int]) -> None:
        for i, count in slots.items():
            self._free[i] -= count
        insort(self._running, RunningJob(min(end_s, self._now_s + YEAR_S), len(self._running), slots))

    @property
    def full(self) -> bool:
        """Implement `StartPlan.full`."""
        return not any(free > 0 for free in self._free)

    def start(self, size: int, lasts_s: float) -> Places | None:
        """Implement `StartPlan.start`: on nodes that no reservation keeps before the job's end."""
        lasts_s = min(lasts_s, YEAR_S)
        nodes, _ = self._usable(self._now_s, lasts_s)
        slots = pick_nodes(self._free_of(nodes), size)
        if slots is None:
            return None
        self._run(self._now_s + lasts_s, slots)
        return {self._names[i]: count for i, count in slots.items()}

    def reserve(self, size: int, lasts_s: float) -> float:
        """Implement `StartPlan.reserve`: the whole nodes that the job would be given, as in `_attempt_backfill`.

        A start is first looked for on the nodes that are not reserved now, then on those of later periods.
        """
        lasts_s = min(lasts_s, YEAR_S)
        later_s: float | None = self._now_s
        while later_s is not None:
            from_s = later_s
            nodes, later_s = self._usable(from_s, lasts_s)
            found = self._will_run(nodes, size)
            if found is None:
                continue
            at_s, chosen = max(found[0], from_s), found[1]
            if later_s is not None and at_s > later_s:
                continue
            begin_s, end_s = self._rounded(at_s), self._rounded(at_s + lasts_s)
            if at_s > from_s and self._overlaps(chosen, begin_s, end_s):
                later_s = at_s
                continue
            begin_s = max(begin_s, self._now_s)
            self._keep(chosen, begin_s, max(end_s, begin_s + self._resolution_s))
            return at_s
        return float("inf")

    # Periods (Slurm's node_space)

    def _usable(self, from_s: float, lasts_s: float) -> tuple[Nodes, float | None]:
        """Return the nodes that are not reserved from `from_s` on for `lasts_s` seconds.

        Also return when to look again, at the end of the first period after which other nodes are not reserved.
        """
        nodes, later_s = self._all, None
        for period, following in self._pairs():
            more = following.nodes & ~(nodes & period.nodes) if following is not None else 0
            if later_s is None and more and period.end_s > from_s:
                later_s = period.end_s
            if period.begin_s > from_s + lasts_s:
                break
            if period.end_s > from_s:
                nodes &= period.nodes
        return nodes, later_s

    def _pairs(self) -> Iterator[tuple[Period, Period | None]]:
        return zip(self._periods, [*self._periods[1:], None], strict=True)

    def _rounded(self, time_s: float) -> float:
        """Return the time, rounded down by Slurm's clock to a multiple of the resolution."""
        return time_s - (time_s + self._epoch_s) % self._resolution_s if self._resolution_s else time_s

    def _overlaps(self, nodes: Nodes, begin_s: float, end_s: float) -> bool:
        meets = (p for p in self._periods if p.end_s > begin_s and p.begin_s < end_s)
        return any(nodes & ~period.nodes for period in meets)

    def _keep(self, nodes: Nodes, begin_s: float, end_s: float) -> None:
        """Take the nodes out of all periods between two times. Equal neighbors become one period."""
        periods: list[Period] = []
        for old in self._periods:
            inside = (time_s for time_s in (begin_s, end_s) if old.begin_s < time_s < old.end_s)
            for begin, end in pairwise(sorted({old.begin_s, old.end_s, *inside})):
                left = old.nodes & ~nodes if begin_s <= begin and end <= end_s else old.nodes
                if periods and periods[-1].nodes == left:
                    begin = periods.pop().begin_s
                periods.append(Period(begin, end, left))
        self._periods = periods

    # The select plugin

    def _will_run(self, nodes: Nodes, size: int) -> tuple[float, Nodes] | None:
        """Return when the job would start on some of the nodes, and on which, if running jobs keep their promises.

        As in `_will_run_test`, running jobs are removed in the order of their ends, a window of ends at a time,
        which doubles, and the start is the last end of the window. The windows begin at multiples of `window_s` of
        Slurm's clock.
        """
        free = self._free_of(nodes)
        picked = pick_nodes(free, size)
        if picked is not None:
            return self._now_s, _set_of(picked)
        jobs = [(job, any(nodes >> i & 1 for i in job.slots)) for job in self._running]
        window_s, place = max(self._window_s, 0.001), 0
        first_s = next((job.end_s for job, counts in jobs if counts), self._now_s)
        base_s = first_s + window_s - (first_s + self._epoch_s) % window_s
        while place < len(jobs):
            last = None
            while place < len(jobs):
                (job, counts), place = jobs[place], place + 1
                if not counts:
                    continue  # The job after this one is removed wherever it ends, as in Slurm.
                last = job
                for i, count in job.slots.items():
                    free[i] += count if nodes >> i & 1 else 0
                if place < len(jobs) and jobs[place][0].end_s > base_s + window_s:
                    break
            window_s *= 2
            while place < len(jobs) and jobs[place][0].end_s > base_s + window_s:
                window_s *= 2
            picked = pick_nodes(free, size)
            if picked is not None and last is not None:
                return self._guessed_s(last.end_s), _set_of(picked)
        return None

    def _guessed_s(self, end_s: float) -> float:
        """Return when a job ends that has promised `end_s`. A promise that is over is `_guess_job_end` of Slurm."""
        return end_s if end_s > self._now_s else max(end_s + self._kill_wait_s, self._now_s)

    def _free_of(self, nodes: Nodes) -> list[int]:
        return [free if nodes >> i & 1 else 0 for i, free in enumerate(self._free)]


def _set_of(slots: Mapping[int, int]) -> Nodes:
    return sum(1 << i for i in slots)


def pick_nodes(free: Sequence[int], size: int) -> dict[int, int] | None:
    """Return the slots for a job by node, or None if too few are free. `free` has those of all nodes, by name.

    As in `_eval_nodes`: of the runs of nodes that follow each other and have free slots, the smallest that
    suffices, or else the largest and then the next. In a run, the first node with the fewest slots that alone suffices,
    or else one node after the other.
    """

    def total(run: Sequence[int]) -> int:
        return sum(free[i] for i in run)

    if size > sum(count for count in free if count > 0):
        return None
    runs, chosen, left = _runs(free), list[int](), size
    while left > 0:
        enough = [run for run in runs if total(run) >= left]
        run = min(enough, key=total) if enough else max(runs, key=total)
        runs.remove(run)
        alone = [i for i in run if free[i] >= left]
        for i in [min(alone, key=lambda i: free[i])] if alone else run:
            if left > 0:
                chosen.append(i)
                left -= free[i]
    return _filled(free, sorted(chosen), size)


def _filled(free: Sequence[int], nodes: Sequence[int], size: int) -> dict[int, int]:
    slots: dict[int, int] = {}
    for i in nodes:
        slots[i] = min(free[i], size)
        size -= slots[i]
    return {i: count for i, count in slots.items() if count}


def _runs(free: Sequence[int]) -> list[list[int]]:
    runs: list[list[int]] = []
    for i, count in enumerate(free):
        if count > 0:
            if runs and runs[-1][-1] == i - 1:
                runs[-1].append(i)
            else:
                runs.append([i])
    return runs
