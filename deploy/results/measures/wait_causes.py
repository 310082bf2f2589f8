"""Causes of tasks' waits: each moment of a wait has one cause; docs/statistics.md defines them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from schedbed.deploy.results.measures.series import Intervals, Steps, active_users
from schedbed.deploy.results.measures.waits import first_assignments

if TYPE_CHECKING:
    import pandas as pd

CAUSES = ("splitting", "data", "share", "slot", "offer")
WAITS_FOR_DATA = "waits for a "
"""What the reasons of skips for locality begin with."""

Area = Callable[[np.ndarray], np.ndarray]


def task_causes(
    jobs: pd.DataFrame,
    attempts: pd.DataFrame,
    decisions: pd.DataFrame,
    slots: Mapping[str, int],
    end_s: float,
) -> dict[str, np.ndarray]:
    """Return by cause the seconds that each task waited for it, in the order of `waits.task_waits`, which is their
    sum.

    `slots` are those of the whole cluster by kind of task. NaN for a task whose time of becoming runnable is unknown.
    """
    first = first_assignments(jobs, attempts)
    until = first["assigned"].to_numpy(float)
    since = np.minimum(first["runnable"].to_numpy(float), until)
    whole = dict(zip(first.index, until, strict=True))
    split = np.array([whole.get(of, np.nan) if of else np.nan for of in first["split_of"]], float)
    cut = np.where(np.isnan(split), until, np.clip(split, since, until))
    found = {cause: np.zeros(len(first)) for cause in CAUSES}
    found["splitting"] = until - cut
    users = dict(zip(jobs["job"], jobs["user"].astype(str), strict=True))
    active = active_users(jobs, end_s)
    skips = decisions[decisions["answer"] == "skip"]
    for kind, rows in _positions(first["kind"]).items():
        mine = attempts[attempts["kind"] == kind]
        owners = mine["job"].map(users).astype(object).fillna("?").to_numpy(str)
        held = _held(mine, owners, end_s)
        full = held.running()
        full = Steps(full.t, (full.value >= slots[kind]).astype(float))
        full_area = full.integrator()
        skipped = _windows(skips[skips["kind"] == kind], mine)
        owner = first["job"].map(users).astype(object).fillna("?").to_numpy(str)
        for user, places in _positions(owner[rows]).items():
            over = _with_a_fair_share(held.running(user), active, full, slots[kind]).integrator()
            for job, some in _positions(first["job"].to_numpy()[rows[places]]).items():
                at = rows[places[some]]
                parts = _of_job(since[at], cut[at], skipped.get(job), full_area, over)
                for cause, seconds in parts.items():
                    found[cause][at] = seconds
    return {cause: np.where(np.isnan(since), np.nan, seconds) for cause, seconds in found.items()}


def _of_job(
    since: np.ndarray, until: np.ndarray, skipped: tuple[np.ndarray, ...] | None, full: Area, over: Area
) -> dict[str, np.ndarray]:
    """Return the seconds by cause of tasks of one job. Skips take precedence over what is known of slots."""

    def area(of: Area) -> np.ndarray:
        return of(until) - of(since)

    full_s, over_s, data_s, held_s = area(full), area(over), 0.0, 0.0
    if skipped is not None:
        start, end, for_data = skipped
        data_s = area(_within(start[for_data], end[for_data], lambda t: t))
        held_s = area(_within(start[~for_data], end[~for_data], lambda t: t))
        full_s = full_s - area(_within(start, end, full))
        over_s = over_s - area(_within(start, end, over))
    rest_s = until - since - data_s - held_s - full_s
    return {
        "data": np.clip(data_s, 0.0, None) + np.zeros(len(since)),
        "share": np.clip(held_s + over_s, 0.0, None),
        "slot": np.clip(full_s - over_s, 0.0, None),
        "offer": np.clip(rest_s, 0.0, None),
    }


def _held(attempts: pd.DataFrame, owners: np.ndarray, end_s: float) -> Intervals:
    """Return the intervals in which attempts held a slot: from their assignment to their end, or `end_s`."""
    start = attempts["assigned"].to_numpy(float)
    end = attempts["end"].fillna(end_s).to_numpy(float)
    return Intervals(start, np.maximum(start, end), owners)


def _with_a_fair_share(mine: Steps, active: Steps, full: Steps, slots: int) -> Steps:
    """Return 1 while no slot is free, two or more users are active, and this user holds at least its equal share."""
    times = np.unique(np.concatenate([mine.t, active.t, full.t]))
    users = active.at(times)
    has = (full.at(times) > 0) & (users >= 2) & (mine.at(times) * users >= slots)
    return Steps(times, has.astype(float))


def _windows(skips: pd.DataFrame, attempts: pd.DataFrame) -> dict[str, tuple[np.ndarray, ...]]:
    """Return, by job, the start and end of each time that it was passed over, and whether for data locality. Such a
    time ends at the job's next skip or its next assignment, whichever comes first."""
    assigned = {job: np.sort(times.to_numpy(float)) for job, times in attempts.groupby("job")["assigned"]}
    made: dict[str, tuple[np.ndarray, ...]] = {}
    for job, rows in skips.sort_values("t", kind="stable").groupby("job", sort=False):
        start = rows["t"].to_numpy(float)
        given = np.append(assigned.get(job, np.empty(0)), np.inf)
        end = np.minimum(given[np.searchsorted(given, start)], np.append(start[1:], np.inf))
        for_data = rows["reason"].fillna("").str.startswith(WAITS_FOR_DATA).to_numpy(bool)
        made[str(job)] = (start, end, for_data)
    return made


def _within(start: np.ndarray, end: np.ndarray, area: Area) -> Area:
    """Return the area up to a time that lies in the windows, which are sorted and do not overlap."""
    if not len(start):
        return np.zeros_like
    closed = np.where(np.isinf(end), start, end)  # of an open one only what `inside` adds counts
    before = np.concatenate([[0.0], np.cumsum(area(closed) - area(start))])

    def up_to(t: np.ndarray) -> np.ndarray:
        index = np.searchsorted(start, t, side="right") - 1
        at = np.clip(index, 0, None)
        inside = area(np.minimum(t, end[at])) - area(start[at])
        return np.where(index < 0, 0.0, before[at] + inside)

    return up_to


def _positions(values: pd.Series | np.ndarray) -> dict[str, np.ndarray]:
    """Return the indexes of each value."""
    names, index = np.unique(np.asarray(values, str), return_inverse=True)
    places = np.split(
        np.argsort(index, kind="stable"), np.cumsum(np.bincount(index, minlength=len(names)))[:-1]
    )
    return dict(zip(names.tolist(), places, strict=True)) if len(names) else {}
