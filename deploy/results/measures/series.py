"""Attempts as time intervals, and series computed from them: running attempts, shares and fairness over time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from schedbed.deploy.results.measures.coded import Coded

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class Steps:
    """A step function of time. It is 0 before `t[0]`, and `value[i]` from `t[i]` to `t[i + 1]`."""

    t: np.ndarray
    value: np.ndarray

    @staticmethod
    def of(times: np.ndarray, deltas: np.ndarray) -> Steps:
        """Return the function whose value at a time is the sum of all deltas until then. Times need no order."""
        [made] = Steps.of_all(times, [deltas])
        return made

    @staticmethod
    def of_all(times: np.ndarray, several: Sequence[np.ndarray]) -> list[Steps]:
        """Return the functions of `of` for each of several arrays of deltas, which occur at the same times."""
        order = np.argsort(times, kind="stable")
        ordered = times[order]
        return [Steps(ordered, np.cumsum(deltas[order])) for deltas in several]

    def integral(self, at: np.ndarray) -> np.ndarray:
        """Return the area up to each time in `at`."""
        return self.integrator()(at)

    def integrator(self) -> Callable[[np.ndarray], np.ndarray]:
        """Return a function that gives the same results as `integral`. It is faster if called several times."""
        if not len(self.t):
            return lambda at: np.zeros(len(at))
        areas = np.concatenate([[0.0], np.cumsum(self.value[:-1] * np.diff(self.t))])

        def up_to(at: np.ndarray) -> np.ndarray:
            index = np.searchsorted(self.t, at, side="right") - 1
            inside = np.clip(index, 0, None)
            return np.where(index < 0, 0.0, areas[inside] + self.value[inside] * (at - self.t[inside]))

        return up_to

    def at(self, when: np.ndarray) -> np.ndarray:
        [values] = Steps.all_at([self], when)
        return values

    @staticmethod
    def all_at(functions: Sequence[Steps], when: np.ndarray) -> list[np.ndarray]:
        """Return the values of several functions at each time in `when`. The functions must have equal `t`."""
        if not len(functions[0].t):
            return [np.zeros(len(when)) for _ in functions]
        index = np.searchsorted(functions[0].t, when, side="right") - 1
        before, inside = index < 0, np.clip(index, 0, None)
        return [np.where(before, 0.0, each.value[inside]) for each in functions]


@dataclass(frozen=True, slots=True)
class Intervals:
    """The start and the end time of each attempt, and the group (job, user or node) that the attempt belongs to."""

    start: np.ndarray
    end: np.ndarray
    group: Coded

    @staticmethod
    def of(attempts: pd.DataFrame, group: Coded | np.ndarray, end_s: float) -> Intervals:
        """Return the intervals in which attempts ran; those without an end run until `end_s`."""
        coded = group if isinstance(group, Coded) else Coded.of(group)
        start = attempts["start"].to_numpy(float)
        end = np.where(attempts["end"].isna(), end_s, attempts["end"]).astype(float)
        ran = ~np.isnan(start) & (end > start)
        return Intervals(start[ran], end[ran], coded[ran])

    def running(self, group: str | None = None) -> Steps:
        """Return the number of running attempts over time. If `group` is None, attempts of all groups are included."""
        mine = slice(None) if group is None else self.group.is_name(group)
        start, end = self.start[mine], self.end[mine]
        deltas = np.concatenate([np.ones(len(start)), -np.ones(len(end))])
        return Steps.of(np.concatenate([start, end]), deltas)

    def groups(self) -> list[str]:
        """Return the names of the groups, the one with the longest total running time first."""
        names, codes = self.group.names, self.group.codes
        if not len(codes):
            return []
        totals = np.bincount(codes, self.end - self.start, len(names))
        some = np.bincount(codes, minlength=len(names)) > 0
        return [str(names[i]) for i in np.lexsort((names, -totals)) if some[i]]

    def binned(self, group: str | None, edges: np.ndarray) -> np.ndarray:
        """Return the mean number of running attempts between edges, of all groups if `group` is None."""
        return np.diff(self.running(group).integral(edges)) / np.diff(edges)

    def jain(self, active: Steps) -> float:
        """Return Jain's fairness index (sum x)^2 / (n sum x^2) of the users, averaged over time.

        x is a user's number of running attempts, and n the number of active users. Times with fewer than two
        of them or without an attempt are ignored. If no other time is left, return 1.
        """
        index = self.jain_steps(active)
        lasts = np.diff(index.t)
        counted = ~np.isnan(index.value[:-1]) & (lasts > 0)
        if not counted.any():
            return 1.0
        return float(np.average(index.value[:-1][counted], weights=lasts[counted]))

    def jain_steps(self, active: Steps) -> Steps:
        """Return Jain's index over time, NaN while fewer than two users are active or no attempt runs."""
        loads = self._loads()
        times = np.concatenate([loads[0].t, active.t])
        times.sort(kind="stable")  # Fast, since it merges two sorted arrays.
        times = times[np.diff(times, prepend=-np.inf) > 0]
        return Steps(times, _jain(loads, active, times))

    def jain_at(self, active: Steps, when: np.ndarray) -> np.ndarray:
        """Return `jain_steps` at each time in `when`, also NaN before the first step."""
        return _jain(self._loads(), active, when)

    def _loads(self) -> list[Steps]:
        """Return the sum of the numbers of running attempts of all groups, and the sum of their squares, over time."""
        times, groups = np.concatenate([self.start, self.end]), np.tile(self.group.codes, 2)
        if len(self.group.names) <= np.iinfo(np.uint16).max:
            groups = groups.astype(np.uint16)  # Of which numpy sorts many in a fraction of the time.
        deltas, after = np.repeat([1.0, -1.0], len(self.start)), np.empty(len(times))
        order = np.lexsort((times, groups))
        # The deltas of each group sum to 0, so that the sum begins at 0 again with the next group.
        after[order] = np.cumsum(deltas[order])
        return Steps.of_all(times, [deltas, after**2 - (after - deltas) ** 2])


def _jain(loads: Sequence[Steps], active: Steps, when: np.ndarray) -> np.ndarray:
    """Return Jain's fairness index at each time, from the result of `Intervals._loads`."""
    users, (x, x2) = active.at(when), Steps.all_at(loads, when)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.where((users >= 2) & (x > 0), x * x / (users * x2), np.nan)
    return np.minimum(value, 1.0)


def active_users(jobs: pd.DataFrame, end_s: float) -> Steps:
    """Return the number of users with an unfinished job over time. Without a finish, it ends at `end_s`."""
    spans = [_spans(jobs, rows, end_s) for rows in Coded.of(jobs["user"]).rows().values()]
    if not spans:
        return Steps.of(np.zeros(0), np.zeros(0))
    start = np.concatenate([start for start, _ in spans])
    end = np.concatenate([end for _, end in spans])
    return Steps.of(np.concatenate([start, end]), np.concatenate([np.ones(len(start)), -np.ones(len(end))]))


def active_spans(jobs: pd.DataFrame, end_s: float) -> list[tuple[float, float]]:
    """Return the spans in which any job is submitted and unfinished (until `end_s` without a finish)."""
    start, end = _spans(jobs, np.arange(len(jobs)), end_s)
    return list(zip(start.tolist(), end.tolist(), strict=True))


def _spans(jobs: pd.DataFrame, rows: np.ndarray, end_s: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the starts and the ends of the time spans of `active_spans`, for the jobs in the given rows."""
    submit = jobs["submit"].to_numpy(float)[rows]
    finish = jobs["finish"].fillna(end_s).to_numpy(float)[rows]
    order = np.lexsort((finish, submit))
    submit, latest = submit[order], np.maximum.accumulate(finish[order])
    if not len(submit):
        return submit, latest
    first = np.flatnonzero(np.append(True, submit[1:] > latest[:-1]))
    return submit[first], latest[np.append(first[1:], len(submit)) - 1]


def share_ratios(tasks: Intervals, jobs: pd.DataFrame, end_s: float, slots: int) -> dict[str, float]:
    """Return each user's ratio of running slots to `slots` / active users, averaged over the user's active
    time.

    It is NaN for a user whose jobs took no time.
    """
    active = active_users(jobs, end_s)
    fair_seconds = (active.integral(tasks.end) - active.integral(tasks.start)) / max(slots, 1)
    ratios: dict[str, float] = {}
    for user, rows in Coded.of(jobs["user"]).rows().items():
        start, end = _spans(jobs, rows, end_s)
        seconds = sum((end - start).tolist())
        mine = float(fair_seconds[tasks.group.is_name(user)].sum())
        ratios[user] = mine / seconds if seconds > 0 else float("nan")
    return ratios
