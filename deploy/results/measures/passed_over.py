"""The times when jobs were passed over by offers, and how much of a wait falls into them, for many tasks at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from schedbed.deploy.results.measures.coded import Coded, places_of

if TYPE_CHECKING:
    import pandas as pd

WAITS_FOR_DATA = "waits for a "
"""The first words of the reason of each skip for locality."""

Area = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True, slots=True)
class SkipWindows:
    """The times when jobs were passed over, by job and then by time, and whether for data locality. Such a time ends at
    the job's next skip or its next assignment, whichever comes first."""

    jobs: np.ndarray  # that were passed over
    job: np.ndarray  # of each time, its place among `jobs`
    start: np.ndarray
    end: np.ndarray
    for_data: np.ndarray

    @staticmethod
    def of(skips: pd.DataFrame, attempts: pd.DataFrame) -> SkipWindows:
        """Return the times of the skipped jobs; `attempts` are those of the same kind of tasks."""
        coded, t = Coded.of(skips["job"]), skips["t"].to_numpy(float)
        order = np.lexsort((t, coded.codes))
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
        reasons = Coded.of(skips["reason"].fillna(""))
        is_data = np.array([name.startswith(WAITS_FOR_DATA) for name in reasons.names], bool)
        for_data = is_data[reasons.codes[order]] if len(order) else np.zeros(0, bool)
        return SkipWindows(jobs, job, start, np.minimum(end, following), for_data)

    def around(
        self, place: np.ndarray, since: np.ndarray, until: np.ndarray, *, for_data: bool | None = None
    ) -> PassedWaits:
        """Return the waits of tasks, of which `place` has the job among `jobs`, with the times of these jobs. A job
        without any has place -1."""
        tasks = np.flatnonzero(place >= 0)
        chosen = np.zeros(len(self.jobs), bool)
        chosen[place[tasks]] = True
        rows = np.flatnonzero(chosen[self.job])
        if for_data is not None:
            rows = rows[self.for_data[rows] == for_data]
        job, start = self.job[rows], self.start[rows]
        firsts, ends = _edges(job, len(self.jobs))
        of = place[tasks]

        def at(t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            count = counted_before(job, start, of, t, inclusive=True)
            return count > 0, np.clip(firsts[of] + count - 1, 0, max(0, len(rows) - 1))

        spans = [(a, b) for a, b in zip(firsts.tolist(), ends.tolist(), strict=True) if b > a + 1]
        lookups = (at(since[tasks]), at(until[tasks]))
        return PassedWaits(
            len(place), tasks, (since[tasks], until[tasks]), lookups, start, self.end[rows], spans
        )


@dataclass(frozen=True, slots=True)
class PassedWaits:
    """The waits of tasks with the times when their jobs were passed over."""

    count: int
    tasks: np.ndarray  # whose jobs were passed over
    times: tuple[np.ndarray, np.ndarray]  # when their waits begin and end
    lookups: tuple[tuple[np.ndarray, np.ndarray], ...]  # the last time that began by then, if there is one
    start: np.ndarray
    end: np.ndarray
    spans: list[tuple[int, int]]  # where the times of each job begin and end, of jobs with several

    def share(self, area: Area) -> np.ndarray:
        """Return, for each task, the area over the part of the task's wait when its job was passed over."""
        made = np.zeros(self.count)
        if not len(self.start):
            return made
        closed = np.where(
            np.isinf(self.end), self.start, self.end
        )  # of an open one only what is inside counts
        began = area(self.start)
        gained = area(closed) - began
        before = np.zeros(len(gained))
        for a, b in self.spans:
            before[a + 1 : b] = np.cumsum(gained[a : b - 1])
        since, until = (
            np.where(some, before[at] + (area(np.minimum(t, self.end[at])) - began[at]), 0.0)
            for t, (some, at) in zip(self.times, self.lookups, strict=True)
        )
        made[self.tasks] = until - since
        return made


def counted_before(
    groups: np.ndarray, times: np.ndarray, group: np.ndarray, at: np.ndarray, *, inclusive: bool
) -> np.ndarray:
    """Return for each pair of `group` and `at` how many pairs of `groups` and `times` are in the same group and
    earlier, or not later if `inclusive`."""
    asks = np.concatenate([np.zeros(len(groups), bool), np.ones(len(group), bool)])
    every = np.concatenate([groups, group])
    order = np.lexsort((asks if inclusive else ~asks, np.concatenate([times, at]), every))
    seen = np.empty(len(order), np.intp)
    seen[order] = np.cumsum(~asks[order])
    below = np.cumsum(np.bincount(groups, minlength=int(every.max(initial=0)) + 1))
    return seen[len(groups) :] - np.where(group > 0, below[group - 1], 0)


def _edges(groups: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return where each of the sorted groups begins and ends."""
    ends = np.cumsum(np.bincount(groups, minlength=count))
    return np.append(0, ends)[:count], ends
