"""The time spans in which the policy skipped a job, and how much of each task's wait lies within them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from schedbed.deploy.results.measures.coded import Coded, order_by, places_of

if TYPE_CHECKING:
    import pandas as pd

WAITS_FOR_DATA = "waits for a "
"""The first words of the reason of each skip for locality."""

Area = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True, slots=True)
class SkipWindows:
    """The time spans in which the policy skipped jobs, ordered by job and time.

    A span starts at a skip. It ends at the job's next skip or next assignment, whichever is earlier.
    `for_data` is true for spans in which the job was skipped to wait for a node with its data.
    """

    jobs: np.ndarray  # The ids of the skipped jobs.
    job: np.ndarray  # For each span, the index of its job in `jobs`.
    start: np.ndarray
    end: np.ndarray
    for_data: np.ndarray

    @staticmethod
    def of(skips: pd.DataFrame, attempts: pd.DataFrame) -> SkipWindows:
        """Return the time spans in which the policy skipped jobs, computed from its decisions to skip a job.

        `skips` are these decisions for one kind of tasks (map or reduce), and `attempts` are the attempts of
        that kind.
        """
        coded, t = Coded.of(skips["job"]), skips["t"].to_numpy(float)
        order = order_by(coded.codes, t)
        job, start = coded.codes[order], t[order]
        jobs = coded.names.astype(object)
        place = places_of(jobs, attempts["job"])
        known = np.flatnonzero(place >= 0)
        known = known[np.lexsort((attempts["assigned"].to_numpy(float)[known], place[known]))]
        given = np.append(attempts["assigned"].to_numpy(float)[known], np.inf)
        at = counted_before(place[known], given[:-1], job, start, inclusive=False)
        firsts, ends = _edges(place[known], len(jobs))
        end = np.where(firsts[job] + at < ends[job], given[np.minimum(firsts[job] + at, len(known))], np.inf)
        follows = np.append(job[1:] == job[:-1], False)[: len(job)]
        following = np.where(follows, np.append(start[1:], np.inf)[: len(start)], np.inf)
        for_data = waits_for_data(skips["reason"])[order]
        return SkipWindows(jobs, job, start, np.minimum(end, following), for_data)

    def around(self, place: np.ndarray, since: np.ndarray, until: np.ndarray) -> PassedWaits:
        """Return the waits of tasks together with the time spans in which the tasks' jobs were skipped.

        `place` contains, for each task, the index of its job in the attribute `jobs`, or -1 if the job was
        never skipped. `since` and `until` are the start and the end of each wait.
        """
        tasks = np.flatnonzero(place >= 0)
        of, times = place[tasks], (since[tasks], until[tasks])
        begun = tuple(counted_before(self.job, self.start, of, t, inclusive=True) for t in times)
        return PassedWaits(len(place), tasks, of, times, begun, self)

    def __getitem__(self, rows: np.ndarray) -> SkipWindows:
        """Return only the time spans in the given rows, which must be in ascending order."""
        return SkipWindows(self.jobs, self.job[rows], self.start[rows], self.end[rows], self.for_data[rows])

    def edges(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the index of the first time span of each job, and the index after its last one."""
        return _edges(self.job, len(self.jobs))


@dataclass(frozen=True, slots=True)
class PassedWaits:
    """Waits of tasks, combined with the time spans in which the policy skipped the tasks' jobs."""

    count: int
    tasks: np.ndarray  # Sorted indexes of tasks whose jobs were skipped.
    of: np.ndarray  # The index of the job of each of these tasks in `windows.jobs`.
    times: tuple[np.ndarray, np.ndarray]  # The start and end of each wait.
    begun: tuple[np.ndarray, ...]  # The number of the job's spans that have begun by then.
    windows: SkipWindows

    def of_tasks(self, chosen: np.ndarray) -> PassedWaits:
        """Return only the waits of the tasks whose indexes are in the sorted array `chosen`.

        In the result, the indexes of tasks are positions in `chosen`.
        """
        rows = np.searchsorted(self.tasks, chosen)
        place = np.flatnonzero(np.append(self.tasks, -1)[rows] == chosen)
        rows = rows[place]
        of = self.of[rows]
        firsts, ends = self.windows.edges()
        jobs = np.flatnonzero(np.bincount(of, minlength=len(firsts)))
        since, until = self.times
        return PassedWaits(
            len(chosen),
            place,
            of,
            (since[rows], until[rows]),
            tuple(begun[rows] for begun in self.begun),
            self.windows[_ranges(firsts[jobs], ends[jobs])],
        )

    def because(self, *, for_data: bool) -> PassedWaits:
        """Return the same waits with only the time spans whose attribute `for_data` has this value."""
        kept = self.windows.for_data == for_data
        before = np.append(0, np.cumsum(kept))
        firsts = self.windows.edges()[0][self.of]
        begun = tuple(before[firsts + begun] - before[firsts] for begun in self.begun)
        return replace(self, begun=begun, windows=self.windows[np.flatnonzero(kept)])

    def share(self, area: Area) -> np.ndarray:
        """Return, for each task, the integral of a function over the skipped parts of the task's wait.

        In a skipped part of the wait, the policy skips the task's job. The argument `area` describes the
        function: `area(t)` is the integral of the function up to the time `t`. With `area(t) = t`, the
        results are the skipped seconds.
        """
        made, start, end = np.zeros(self.count), self.windows.start, self.windows.end
        if not len(start):
            return made
        closed = np.where(np.isinf(end), start, end)  # An open span counts only up to the end of the wait.
        began = area(start)
        gained = area(closed) - began
        before = np.zeros(len(gained))
        firsts, ends = self.windows.edges()
        several = np.flatnonzero(ends > firsts + 1)
        for a, b in zip(firsts[several].tolist(), ends[several].tolist(), strict=True):
            before[a + 1 : b] = np.cumsum(gained[a : b - 1])
        lasts = [np.clip(firsts[self.of] + begun - 1, 0, len(start) - 1) for begun in self.begun]
        since, until = (
            np.where(begun > 0, before[at] + (area(np.minimum(t, end[at])) - began[at]), 0.0)
            for t, begun, at in zip(self.times, self.begun, lasts, strict=True)
        )
        made[self.tasks] = until - since
        return made


def waits_for_data(reasons: pd.Series) -> np.ndarray:
    """Return a boolean array that is true for the reasons of skips for locality."""
    coded = Coded.of(reasons)
    is_for_data = np.array([name.startswith(WAITS_FOR_DATA) for name in coded.names], bool)
    return is_for_data[coded.codes]


def counted_before(
    groups: np.ndarray, times: np.ndarray, group: np.ndarray, at: np.ndarray, *, inclusive: bool
) -> np.ndarray:
    """Return the number of events before the time `at[i]` in the group `group[i]`, for each query i.

    `groups` and `times` are the groups and times of the events. With `inclusive`, events at the time itself
    are included.
    """
    asks = np.concatenate([np.zeros(len(groups), bool), np.ones(len(group), bool)])
    every = np.concatenate([groups, group])
    order = np.lexsort((asks if inclusive else ~asks, np.concatenate([times, at]), every))
    seen = np.empty(len(order), np.intp)
    seen[order] = np.cumsum(~asks[order])
    below = np.cumsum(np.bincount(groups, minlength=int(every.max(initial=0)) + 1))
    return seen[len(groups) :] - np.where(group > 0, below[group - 1], 0)


def _edges(groups: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the index of each group's first element, and the index after its last element.

    `groups` is a sorted array with the group number of each element. All numbers are below `count`.
    """
    ends = np.cumsum(np.bincount(groups, minlength=count))
    return np.append(0, ends)[:count], ends


def _ranges(firsts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Return the numbers from each first to before its end, one range after the other."""
    lengths = ends - firsts
    starts = np.cumsum(lengths) - lengths
    return np.arange(int(lengths.sum())) + np.repeat(firsts - starts, lengths)
