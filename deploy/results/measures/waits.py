"""The waits of jobs and tasks before their first launch, for all jobs, each user and each size class."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from schedbed.deploy.results.measures.coded import Coded, places_of
from schedbed.scheduler.core.settings import CoreConfig

if TYPE_CHECKING:
    import pandas as pd

SIZES = {"small": 10, "medium": 100, "large": math.inf}
"""The size classes of jobs, each with its largest number of maps and reduces."""


def sizes_of(jobs: pd.DataFrame) -> list[str]:
    return np.array(list(SIZES))[_size_places(jobs)].tolist()


def _size_places(jobs: pd.DataFrame) -> np.ndarray:
    """Return the position in `SIZES` of each job's size class."""
    tasks = (jobs["maps"] + jobs["reduces"]).to_numpy(float)
    return np.searchsorted(np.array([*SIZES.values()]), tasks)


def spread(times: np.ndarray) -> dict[str, float]:
    """Return mean, median and 95th percentile without NaN, which is what they are without times."""
    known = times[~np.isnan(times)]
    if not len(known):
        return {"mean": math.nan, "median": math.nan, "p95": math.nan}
    return {
        "mean": float(known.mean()),
        "median": float(np.median(known)),
        "p95": float(np.percentile(known, 95)),
    }


def mean_of(times: np.ndarray) -> float:
    """Return the mean without NaN, or NaN if no time is left."""
    known = times[~np.isnan(times)]
    return float(known.mean()) if len(known) else math.nan


def grouped(jobs: pd.DataFrame, times: np.ndarray) -> dict[str, Any]:
    """Return the `spread` of the jobs' times, also for each user and size class."""
    users, sizes = Coded.of(jobs["user"]).rows(), size_rows(jobs)
    return {
        **spread(times),
        "per_user": {user: spread(times[rows]) for user, rows in users.items()},
        "per_size": {size: spread(times[rows]) for size, rows in sizes.items()},
    }


def size_rows(jobs: pd.DataFrame) -> dict[str, np.ndarray]:
    """Return the row indexes of each size class with jobs, smallest class first."""
    classes = _size_places(jobs)
    rows = {size: np.flatnonzero(classes == place) for place, size in enumerate(SIZES)}
    return {size: mine for size, mine in rows.items() if len(mine)}


def job_waits(jobs: pd.DataFrame) -> np.ndarray:
    """Return the seconds from submission to first launch, or NaN without one."""
    return (jobs["start"] - jobs["submit"]).to_numpy(float)


def task_waits(first: pd.DataFrame) -> np.ndarray:
    """Return the seconds from runnable to first assignment, for `first_assignments`."""
    return np.clip(first["assigned"].to_numpy(float) - first["runnable"].to_numpy(float), 0.0, None)


def first_assignments(jobs: pd.DataFrame, attempts: pd.DataFrame) -> pd.DataFrame:
    """Return the launched tasks with columns assigned (first time), job, kind, split_of (a map) and runnable.

    A map is runnable from the job's submission, and a reduce from when enough of the job's maps had ended.
    """
    import pandas as pd

    codes, tasks = pd.factorize(attempts["task"])
    assigned, is_once = attempts["assigned"].to_numpy(float), len(tasks) == len(codes)
    if is_once:
        rows = attempts
    else:
        order = np.lexsort((assigned, codes))
        assigned = assigned[order[np.searchsorted(codes[order], np.arange(len(tasks)))]]
        seen, at = np.unique(codes, return_index=True)
        rows = attempts.iloc[at[seen >= 0]]
    place = places_of(jobs["job"], rows["job"])
    since = np.append(jobs["submit"].to_numpy(float), math.nan)[place]
    opened = np.append(_reduces_opened(jobs, attempts, codes, is_once), math.nan)[place]
    is_reduce = (rows["kind"] == "reduce").to_numpy(bool)
    made = {
        "assigned": assigned,
        **{name: rows[name].array for name in ("job", "kind", "split_of")},
        "runnable": np.where(is_reduce, opened, since),
    }
    return pd.DataFrame(made, index=pd.Index(tasks, name="task"))


def _reduces_opened(
    jobs: pd.DataFrame, attempts: pd.DataFrame, codes: np.ndarray, is_once: bool
) -> np.ndarray:
    """Return when enough maps of each job had ended for its reduces; its submission, without maps.

    `codes` has each attempt's task. With `is_once`, no task has several attempts.
    """
    good = ((attempts["kind"] == "map") & (attempts["state"] == "succeeded")).to_numpy(bool)
    rows = np.flatnonzero(good)
    end = attempts["end"].to_numpy(float)
    rows = rows[np.argsort(end[rows], kind="stable")]
    if not is_once:
        rows = rows[np.sort(np.unique(codes[rows], return_index=True)[1])]
    place = places_of(jobs["job"], attempts["job"].array[rows])
    rows, place = rows[place >= 0], place[place >= 0]
    ends = np.append(end[rows[np.argsort(place, kind="stable")]], math.nan)
    counts = np.bincount(place, minlength=len(jobs))
    needed = np.ceil(CoreConfig().slowstart * jobs["maps"].to_numpy(float)).astype(int)
    last = np.cumsum(counts) - counts + needed - 1
    opened = np.where(counts >= needed, ends[np.clip(last, 0, len(ends) - 1)], math.nan)
    return np.where(needed > 0, opened, jobs["submit"].to_numpy(float))
