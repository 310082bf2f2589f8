"""The causes of tasks' waits. Each moment of a wait has exactly one cause, as defined in docs/statistics.md."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from schedbed.deploy.results.measures.coded import Coded, filled, order_by, places_of
from schedbed.deploy.results.measures.row_values import texts_of
from schedbed.deploy.results.measures.series import Intervals, Steps, active_users
from schedbed.deploy.results.measures.waits import size_rows

if TYPE_CHECKING:
    import pandas as pd

CAUSES = ("splitting", "data", "share", "slot", "offer")


def task_causes(
    jobs: pd.DataFrame,
    attempts: pd.DataFrame,
    decisions: pd.DataFrame,
    slots: Mapping[str, int],
    end_s: float,
    first: pd.DataFrame,
) -> dict[str, np.ndarray]:
    """Return the seconds that each launched task in `first` waited, by cause, which add up to the task's
    wait.

    `slots` contains the cluster's number of map and reduce slots. Values are NaN if it is unknown when the
    task became runnable.
    """
    until = first["assigned"].to_numpy(float)
    since = np.minimum(first["runnable"].to_numpy(float), until)
    split = np.append(until, np.nan)[_splits(first)]
    cut = np.where(np.isnan(split), until, np.clip(split, since, until))
    found = {cause: np.zeros(len(first)) for cause in CAUSES}
    found["splitting"] = until - cut
    users = dict(zip(texts_of(jobs["job"]), texts_of(jobs["user"].astype(str)), strict=True))
    active = active_users(jobs, end_s)
    skips = decisions[decisions["answer"] == "skip"]
    owner = Coded.mapped(first["job"], users)
    for kind, rows in Coded.of(first["kind"]).rows().items():
        mine = attempts[attempts["kind"] == kind]
        held = _held(mine, Coded.mapped(mine["job"], users), end_s)
        full = held.running()
        full = _from_first_zeros(Steps(full.t, (full.value >= slots[kind]).astype(float)))
        full_area = full.integrator()
        passed = SkipWindows.of(skips[skips["kind"] == kind], mine)
        place = places_of(passed.jobs, first["job"])
        waits = passed.around(place[rows], since[rows], cut[rows])
        over_s = np.zeros(len(rows))
        for user, places in owner[rows].rows().items():
            at = rows[places]
            over = _with_a_fair_share(held.running(user), active, full, slots[kind]).integrator()
            over_s[places] = _beside_skips(over, since[at], cut[at], waits.of_tasks(places))
        parts = _of_tasks(since[rows], cut[rows], waits, full_area, over_s)
        for cause, seconds in parts.items():
            found[cause][rows] = seconds
    return {cause: np.where(np.isnan(since), np.nan, seconds) for cause, seconds in found.items()}


def _splits(first: pd.DataFrame) -> np.ndarray:
    """Return the row of the map from which each task in `first` was split off, or -1."""
    made = np.full(len(first), -1)
    split_of = filled(first["split_of"]).to_numpy(object)
    cut = np.flatnonzero(split_of != "")
    if len(cut):
        made[cut] = places_of(first.index, split_of[cut])
    return made


def _of_tasks(
    since: np.ndarray,
    until: np.ndarray,
    waits: PassedWaits,
    full: Area,
    over_s: np.ndarray,
) -> dict[str, np.ndarray]:
    """Return the seconds by cause for tasks which waited from `since` to `until`.

    In the spans of `waits` in which the policy skipped the job, the skip is the cause, even if no slot is
    free. `full` gives the seconds without a free slot up to a time, and `over_s` those in which the task's
    user had at least a fair share of the slots.
    """
    data_s, held_s = (waits.because(for_data=for_data).share(lambda t: t) for for_data in (True, False))
    full_s = _beside_skips(full, since, until, waits)
    rest_s = until - since - data_s - held_s - full_s
    return {
        "data": np.clip(data_s, 0.0, None),
        "share": np.clip(held_s + over_s, 0.0, None),
        "slot": np.clip(full_s - over_s, 0.0, None),
        "offer": np.clip(rest_s, 0.0, None),
    }


def _beside_skips(of: Area, since: np.ndarray, until: np.ndarray, waits: PassedWaits) -> np.ndarray:
    """Return the part of each wait's integral outside of its job's skips."""
    return of(until) - of(since) - waits.share(of)


def _held(attempts: pd.DataFrame, owners: Coded, end_s: float) -> Intervals:
    """Return the intervals in which attempts occupied a slot: from their assignment to their end, or to `end_s`."""
    start = attempts["assigned"].to_numpy(float)
    end = attempts["end"].fillna(end_s).to_numpy(float)
    return Intervals(start, np.maximum(start, end), owners)


def _with_a_fair_share(mine: Steps, active: Steps, full: Steps, slots: int) -> Steps:
    """Return 1 while no slot is free, two or more users are active and this one has an equal share, else 0.

    `mine` is the number of slots of this user, and `full` is above 0 while no slot is free.
    """
    steps = np.concatenate([mine.t, active.t])
    times = np.unique(np.concatenate([steps[full.at(steps) > 0], full.t]))
    users = active.at(times)
    has = (full.at(times) > 0) & (users >= 2) & (mine.at(times) * users >= slots)
    return Steps(times, has.astype(float))


def _from_first_zeros(steps: Steps) -> Steps:
    """Drop the times at which the function was 0 already and stays 0."""
    is_zero = steps.value == 0
    kept = ~(is_zero & np.append(True, is_zero[:-1])[: len(is_zero)])
    return Steps(steps.t[kept], steps.value[kept])


# The time spans in which the policy skipped a job, and how much of each task's wait lies within them.

WAITS_FOR_DATA = "waits for a "
"""The first words of the reason of each skip for locality."""

Area = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True, slots=True)
class SkipWindows:
    """The spans in which the policy skipped jobs, ordered by job and time.

    A span ends at the job's next skip or assignment. `for_data` marks skips to wait for a node with the job's
    data.
    """

    jobs: np.ndarray  # The ids of the skipped jobs.
    job: np.ndarray  # For each span, the index of its job in `jobs`.
    start: np.ndarray
    end: np.ndarray
    for_data: np.ndarray

    @staticmethod
    def of(skips: pd.DataFrame, attempts: pd.DataFrame) -> SkipWindows:
        """Return the spans of the decisions `skips`, for the attempts of the same kind (map or reduce)."""
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
        """Return waits with their jobs' spans. `place` has each task's index in `jobs`, or -1 if never skipped."""
        tasks = np.flatnonzero(place >= 0)
        of, times = place[tasks], (since[tasks], until[tasks])
        begun = tuple(counted_before(self.job, self.start, of, t, inclusive=True) for t in times)
        return PassedWaits(len(place), tasks, of, times, begun, self)

    def __getitem__(self, rows: np.ndarray) -> SkipWindows:
        """Keep only the given rows, which must be in ascending order."""
        return SkipWindows(self.jobs, self.job[rows], self.start[rows], self.end[rows], self.for_data[rows])

    def edges(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the index of each job's first span, and that after its last."""
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
        """Keep only the tasks in the sorted array `chosen`, whose positions become the indexes."""
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
        """Return the integral of a function over the parts of each task's wait in which its job is skipped.

        `area(t)` is the integral up to `t`. With `area(t) = t`, the results are the skipped seconds.
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
    """Return the number of events of `group[i]` before `at[i]` (or at it, with `inclusive`), for each query i."""
    asks = np.concatenate([np.zeros(len(groups), bool), np.ones(len(group), bool)])
    every = np.concatenate([groups, group])
    order = np.lexsort((asks if inclusive else ~asks, np.concatenate([times, at]), every))
    seen = np.empty(len(order), np.intp)
    seen[order] = np.cumsum(~asks[order])
    below = np.cumsum(np.bincount(groups, minlength=int(every.max(initial=0)) + 1))
    return seen[len(groups) :] - np.where(group > 0, below[group - 1], 0)


def _edges(groups: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the index of each group's first element in a sorted array, and that after its last."""
    ends = np.cumsum(np.bincount(groups, minlength=count))
    return np.append(0, ends)[:count], ends


def _ranges(firsts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Return the numbers from each first to before its end, range after range."""
    lengths = ends - firsts
    starts = np.cumsum(lengths) - lengths
    return np.arange(int(lengths.sum())) + np.repeat(firsts - starts, lengths)


# The division of jobs' completion times into parts, such as waits for a slot, shuffle, and running time.

SPENT = (*CAUSES, "again", "shuffle", "run")
"""The parts of a job's time: waits by cause, unused attempts, fetching map outputs, and other running time."""


def job_time(
    jobs: pd.DataFrame,
    first: pd.DataFrame,
    causes: Mapping[str, np.ndarray],
    used: pd.DataFrame,
) -> dict[str, Any]:
    """Divide the mean completion time of successful jobs into the seconds of each part in `SPENT`.

    `per_size` contains the same for each size class. `causes` are the waits of the launched tasks `first`,
    and `used` the attempt of each task whose result was used. Each job's completion time is divided in
    proportion to the seconds of its tasks, so the parts add up to it.
    """
    done = jobs[(jobs["state"] == "succeeded") & jobs["finish"].notna()]
    completion = (done["finish"] - done["submit"]).to_numpy(float)
    spent = _of_jobs(places_of(done["job"], first["job"]), len(done), _job_time_of_tasks(first, causes, used))
    whole = spent.sum(axis=1, keepdims=True)
    alone = np.array([name == "run" for name in SPENT], float)  # The parts of a job without tasks.
    parts = np.where(whole > 0, spent / np.where(whole > 0, whole, 1.0), alone) * completion[:, None]
    return {
        **_means(parts),
        "per_size": {size: _means(parts[rows]) for size, rows in size_rows(done).items()},
    }


def _job_time_of_tasks(
    first: pd.DataFrame, causes: Mapping[str, np.ndarray], used: pd.DataFrame
) -> np.ndarray:
    """Return the seconds of each task in `first` (row) in each part of `SPENT` (column), 0 if unknown."""
    place = places_of(used["task"], first.index)

    def mine(column: str) -> np.ndarray:
        return np.append(used[column].to_numpy(float), np.nan)[place]

    assigned, start, end = mine("assigned"), mine("start"), mine("end")
    fetched = np.clip(mine("shuffle_end") - start, 0.0, None)
    shuffle = np.where((first["kind"] == "reduce").to_numpy(), np.nan_to_num(fetched), 0.0)
    again = assigned - first["assigned"].to_numpy(float)
    columns = [*(causes[cause] for cause in CAUSES), again, shuffle, end - assigned - shuffle]
    made = np.column_stack(columns)
    np.nan_to_num(made, copy=False)
    return np.clip(made, 0.0, None, out=made)


def _of_jobs(place: np.ndarray, jobs: int, tasks: np.ndarray) -> np.ndarray:
    """Sum the rows of `tasks` by job. `place` has each task's job, or -1 to ignore it."""
    known = place >= 0
    sums = [np.bincount(place[known], column[known], jobs) for column in tasks.T]
    return np.column_stack(sums) if jobs else np.zeros((0, len(SPENT)))


def _means(parts: np.ndarray) -> dict[str, float]:
    means = parts.mean(axis=0) if len(parts) else np.full(len(SPENT), np.nan)
    return dict(zip(SPENT, means.tolist(), strict=True))


# The decisions of a run that metrics and the timeline need, if there are hundreds of millions.
#
# Under delay scheduling, most decisions repeat that a job still waits for a node with its data.

AT_ONCE = 2  # Added to the codes of skips, 1 and 2, if they last no time. 0 is the code of other decisions.


def needed(decisions: pd.DataFrame, drawn: Collection[str]) -> np.ndarray:
    """Return which decisions metrics and the timeline need, of consecutive rows of one run.

    A skip repeats the previous decision about the job and kind of tasks if that was a skip as well, and both
    or none were for data: the time from first to last is the same without those between. Launches are not
    needed, since attempts say when they were. All decisions about the nodes in `drawn` are needed.
    """
    jobs = Coded.of(decisions["job"])
    is_skip = (decisions["answer"] == "skip").to_numpy(bool)
    said = np.where(is_skip, 1 + waits_for_data(decisions["reason"]), 0)
    about = 2 * jobs.codes + (decisions["kind"] == "reduce").to_numpy(bool)
    order = np.argsort(about, kind="stable")
    about, said, t = about[order], said[order], decisions["t"].to_numpy(float)[order]
    said[is_skip[order] & _ends_at_once(about, said, t)] += AT_ONCE
    repeats = np.zeros(len(decisions), bool)
    repeats[order[1:]] = (about[1:] == about[:-1]) & (said[1:] == said[:-1])
    return (is_skip & ~repeats) | decisions["node"].isin(drawn).to_numpy(bool)


def _ends_at_once(about: np.ndarray, said: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Return whether each decision is at the time of the job's last launch, after which a skip lasts no time.

    Rows are sorted by `about`, then time. Before a job's first row a launch is unknown, so its time counts as
    one.
    """
    places = np.arange(len(about))
    is_first = np.diff(about, prepend=-1) != 0
    first = np.maximum.accumulate(np.where(is_first, places, 0))
    launched = np.maximum.accumulate(np.where(said == 0, places, 0))
    return (t == t[first]) | (t == t[np.maximum(first, launched)])
