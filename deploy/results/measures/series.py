"""Attempts as intervals: running counts over time, shares and fairness, exact and without looping over rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class Steps:
    """A step function: `value[i]` holds from `t[i]` to `t[i + 1]`; before the first time it is 0."""

    t: np.ndarray
    value: np.ndarray

    @staticmethod
    def of(times: np.ndarray, deltas: np.ndarray) -> Steps:
        """Return the running sum of `deltas`, which occur at `times` in any order."""
        order = np.argsort(times, kind="stable")
        return Steps(times[order], np.cumsum(deltas[order]))

    def integral(self, at: np.ndarray) -> np.ndarray:
        """Return the area below the function from its beginning up to each time in `at`."""
        return self.integrator()(at)

    def integrator(self) -> Callable[[np.ndarray], np.ndarray]:
        """Return `integral` as a function for many calls, with the part that is independent of the times computed
        once."""
        if not len(self.t):
            return lambda at: np.zeros(len(at))
        areas = np.concatenate([[0.0], np.cumsum(self.value[:-1] * np.diff(self.t))])

        def up_to(at: np.ndarray) -> np.ndarray:
            index = np.searchsorted(self.t, at, side="right") - 1
            inside = np.clip(index, 0, None)
            return np.where(index < 0, 0.0, areas[inside] + self.value[inside] * (at - self.t[inside]))

        return up_to

    def at(self, when: np.ndarray) -> np.ndarray:
        """Return the value at each time."""
        index = np.searchsorted(self.t, when, side="right") - 1
        return np.where(index < 0, 0.0, self.value[np.clip(index, 0, None)] if len(self.t) else 0.0)


@dataclass(frozen=True, slots=True)
class Intervals:
    """The times of attempts, and the group (job, user, node) of each."""

    start: np.ndarray
    end: np.ndarray
    group: np.ndarray

    @staticmethod
    def of(attempts: pd.DataFrame, group: np.ndarray, end_s: float) -> Intervals:
        """Return the attempts that ran. One without an end ran until `end_s`."""
        start = attempts["start"].to_numpy(float)
        end = np.where(attempts["end"].isna(), end_s, attempts["end"]).astype(float)
        ran = ~np.isnan(start) & (end > start)
        return Intervals(start[ran], end[ran], group[ran])

    def running(self, group: str | None = None) -> Steps:
        """Return the number that run at each time, of one group or of all."""
        mine = slice(None) if group is None else self.group == group
        start, end = self.start[mine], self.end[mine]
        deltas = np.concatenate([np.ones(len(start)), -np.ones(len(end))])
        return Steps.of(np.concatenate([start, end]), deltas)

    def groups(self) -> list[str]:
        """Return the groups, those with the most running time first."""
        names, index = np.unique(self.group, return_inverse=True)
        totals = np.bincount(index, self.end - self.start, len(names)) if len(names) else np.zeros(0)
        return [str(names[i]) for i in np.lexsort((names, -totals))]

    def binned(self, group: str | None, edges: np.ndarray) -> np.ndarray:
        """Return the mean number running in each bin between `edges`."""
        return np.diff(self.running(group).integral(edges)) / np.diff(edges)

    def jain(self, active: Steps) -> float:
        """Return Jain's index (sum x)^2 / (n sum x^2), weighted by time; see `metrics.fairness`."""
        index = self.jain_steps(active)
        lasts = np.diff(index.t)
        counted = ~np.isnan(index.value[:-1]) & (lasts > 0)
        if not counted.any():
            return 1.0
        return float(np.average(index.value[:-1][counted], weights=lasts[counted]))

    def jain_steps(self, active: Steps) -> Steps:
        """Return Jain's index over time; NaN where fewer than two users are active or nothing runs."""
        total, squares = self.running(), self._squares()
        times = np.unique(np.concatenate([total.t, squares.t, active.t]))
        users, x, x2 = active.at(times), total.at(times), squares.at(times)
        with np.errstate(divide="ignore", invalid="ignore"):
            value = np.where((users >= 2) & (x > 0), x * x / (users * x2), np.nan)
        return Steps(times, np.minimum(value, 1.0))

    def _squares(self) -> Steps:
        """Return the sum over groups of (number running) squared."""
        _, index = np.unique(self.group, return_inverse=True)
        times = np.concatenate([self.start, self.end])
        groups = np.concatenate([index, index])
        deltas = np.concatenate([np.ones(len(self.start)), -np.ones(len(self.end))])
        order = np.lexsort((times, groups))
        times, groups, deltas = times[order], groups[order], deltas[order]
        after = np.cumsum(deltas)  # each group's deltas sum to 0, so the sum restarts with every group
        return Steps.of(times, after**2 - (after - deltas) ** 2)


def active_users(jobs: pd.DataFrame, end_s: float) -> Steps:
    """Return the number of users with a submitted and unfinished job."""
    spans = [span for _, rows in jobs.groupby("user") for span in active_spans(rows, end_s)]
    start, end = np.array([s for s, _ in spans]), np.array([e for _, e in spans])
    return Steps.of(np.concatenate([start, end]), np.concatenate([np.ones(len(spans)), -np.ones(len(spans))]))


def active_spans(jobs: pd.DataFrame, end_s: float) -> list[tuple[float, float]]:
    """Return the times when any of these jobs is submitted and unfinished, joined where they touch."""
    ends = jobs["finish"].fillna(end_s)
    spans: list[tuple[float, float]] = []
    for start, end in sorted(zip(jobs["submit"], ends, strict=True)):
        if spans and start <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(end, spans[-1][1]))
        else:
            spans.append((float(start), float(end)))
    return spans


def share_ratios(tasks: Intervals, jobs: pd.DataFrame, end_s: float, slots: int) -> dict[str, float]:
    """Return each user's running slots over (slots / active users), averaged over the time when the user is active.

    NaN for a user whose jobs took no time at all.
    """
    active = active_users(jobs, end_s)
    fair_seconds = (active.integral(tasks.end) - active.integral(tasks.start)) / max(slots, 1)
    ratios: dict[str, float] = {}
    for user, rows in jobs.groupby("user", sort=True):
        seconds = sum(end - start for start, end in active_spans(rows, end_s))
        mine = float(fair_seconds[tasks.group == str(user)].sum())
        ratios[str(user)] = mine / seconds if seconds > 0 else float("nan")
    return ratios
