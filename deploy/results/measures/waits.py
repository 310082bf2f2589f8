"""The waits of jobs and tasks before they started, in all and by groups of jobs: users, and classes of size."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from schedbed.scheduler.core.settings import CoreConfig

if TYPE_CHECKING:
    import pandas as pd

SIZES = {"small": 10, "medium": 100, "large": math.inf}
"""The classes of jobs, each with the most maps and reduces that a job of it has."""


def size_of(tasks: int) -> str:
    """Return the size class of a job by its numbers of maps and reduces."""
    return next(size for size, most in SIZES.items() if tasks <= most)


def spread(times: np.ndarray) -> dict[str, float]:
    """Return mean, median and 95th percentile of times; NaN without any. Missing times do not count."""
    known = times[~np.isnan(times)]
    if not len(known):
        return {"mean": math.nan, "median": math.nan, "p95": math.nan}
    return {
        "mean": float(known.mean()),
        "median": float(np.median(known)),
        "p95": float(np.percentile(known, 95)),
    }


def grouped(jobs: pd.DataFrame, times: np.ndarray) -> dict[str, Any]:
    """Return the spread of the jobs' times over all jobs, `per_user` and `per_size`."""
    users = jobs["user"].astype(str).to_numpy()
    sizes = np.array([size_of(count) for count in (jobs["maps"] + jobs["reduces"]).tolist()], dtype=object)
    return {
        **spread(times),
        "per_user": {user: spread(times[users == user]) for user in sorted(set(users))},
        "per_size": {size: spread(times[sizes == size]) for size in SIZES if (sizes == size).any()},
    }


def classes(jobs: pd.DataFrame) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """Return the ids of each user's jobs, and of those of each class of size."""
    users: dict[str, set[str]] = {}
    sizes: dict[str, set[str]] = {}
    counts = (jobs["maps"] + jobs["reduces"]).tolist()
    for job, user, tasks in zip(jobs["job"], jobs["user"].astype(str), counts, strict=True):
        users.setdefault(user, set()).add(job)
        sizes.setdefault(size_of(tasks), set()).add(job)
    ordered = {size: sizes[size] for size in SIZES if size in sizes}
    return dict(sorted(users.items())), ordered


def job_waits(jobs: pd.DataFrame) -> np.ndarray:
    """Return the seconds from each job's submission to its first launch; NaN for a job that was never launched."""
    return (jobs["start"] - jobs["submit"]).to_numpy(float)


def task_waits(jobs: pd.DataFrame, attempts: pd.DataFrame) -> np.ndarray:
    """Return, for each launched task, the seconds from the time at which it could run to its first assignment."""
    first = first_assignments(jobs, attempts)
    return np.clip(first["assigned"].to_numpy(float) - first["runnable"].to_numpy(float), 0.0, None)


def first_assignments(jobs: pd.DataFrame, attempts: pd.DataFrame) -> pd.DataFrame:
    """Return, by launched task: when it was first `assigned`, since when it was `runnable`, its job, kind and
    split_of.

    A map can run from its job's submission on, a reduce as soon as the slow-start's share of the maps has ended.
    """
    kept = {"assigned": "min", "job": "first", "kind": "first", "split_of": "first"}
    first = attempts.groupby("task", sort=False).agg(kept)
    submits = dict(zip(jobs["job"], jobs["submit"], strict=True))
    opened = _reduces_opened(jobs, attempts)
    runnable = [
        (opened if kind == "reduce" else submits).get(job, math.nan)
        for job, kind in zip(first["job"], first["kind"], strict=True)
    ]
    return first.assign(runnable=np.asarray(runnable, float))


def _reduces_opened(jobs: pd.DataFrame, attempts: pd.DataFrame) -> dict[str, float]:
    """Return, by job, the time at which the slow-start's share of its maps had ended; the submission of a job without
    maps."""
    slowstart = CoreConfig().slowstart
    maps = attempts[(attempts["kind"] == "map") & (attempts["state"] == "succeeded")]
    done = maps.sort_values("end", kind="stable").drop_duplicates("task")
    ends = {job: rows.to_numpy(float) for job, rows in done.groupby("job")["end"]}
    made: dict[str, float] = {}
    for job, submit, total in zip(jobs["job"], jobs["submit"], jobs["maps"], strict=True):
        needed = math.ceil(slowstart * total)
        ended = ends.get(job, np.empty(0))
        made[job] = float(submit) if not needed else ended[needed - 1] if len(ended) >= needed else math.nan
    return made
