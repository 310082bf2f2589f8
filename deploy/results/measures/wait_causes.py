"""The causes of tasks' waits. Each moment of a wait has exactly one cause, as defined in
docs/statistics.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from schedbed.deploy.results.measures.coded import Coded, filled, places_of
from schedbed.deploy.results.measures.passed_over import Area, PassedWaits, SkipWindows
from schedbed.deploy.results.measures.row_values import texts_of
from schedbed.deploy.results.measures.series import Intervals, Steps, active_users

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
    """Return a dictionary from cause to the seconds for which each task waited because of that cause.

    The arrays are in the order of `first`, the launched tasks (`waits.first_assignments`). `slots` contains
    the number of map slots and of reduce slots of the cluster. The causes of a task add up to the task's
    wait. The values are NaN if it is unknown when the task became runnable.
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
    """Return, for each task in `first`, the row of the map from which the policy split the task off.

    The value is -1 for a task that was not split off.
    """
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
    """Return a dictionary from cause to seconds for tasks which waited from `since` to `until`.

    `waits` contains the time spans in which the policy skipped the tasks' jobs. In these spans, the skip is
    the cause, even if no slot is free. `full` is a function that returns the seconds without a free slot up
    to a time. `over_s` contains how many of these seconds the task's user had at least a fair share of the
    slots, for each task.
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
    """Return how much of the integral `of` each wait contains outside of the spans in which its job is skipped."""
    return of(until) - of(since) - waits.share(of)


def _held(attempts: pd.DataFrame, owners: Coded, end_s: float) -> Intervals:
    """Return the intervals in which attempts occupied a slot: from their assignment to their end, or to
    `end_s`.
    """
    start = attempts["assigned"].to_numpy(float)
    end = attempts["end"].fillna(end_s).to_numpy(float)
    return Intervals(start, np.maximum(start, end), owners)


def _with_a_fair_share(mine: Steps, active: Steps, full: Steps, slots: int) -> Steps:
    """Return a step function of time that is 1 if three conditions are met, and otherwise 0.

    No slot is free, at least two users are active, and the user in question occupies at least an equal share
    of the `slots` slots. `mine` is the number of slots that this user occupies, `active` is the number of
    active users, and `full` is above 0 while no slot is free.
    """
    steps = np.concatenate([mine.t, active.t])
    times = np.unique(np.concatenate([steps[full.at(steps) > 0], full.t]))
    users = active.at(times)
    has = (full.at(times) > 0) & (users >= 2) & (mine.at(times) * users >= slots)
    return Steps(times, has.astype(float))


def _from_first_zeros(steps: Steps) -> Steps:
    """Return the same function without the times at which it was 0 already and stays 0."""
    is_zero = steps.value == 0
    kept = ~(is_zero & np.append(True, is_zero[:-1])[: len(is_zero)])
    return Steps(steps.t[kept], steps.value[kept])
