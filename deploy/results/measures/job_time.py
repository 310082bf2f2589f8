"""The division of jobs' completion times into parts, such as waits for a slot, shuffle, and running time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from schedbed.deploy.results.measures.coded import places_of
from schedbed.deploy.results.measures.wait_causes import CAUSES
from schedbed.deploy.results.measures.waits import size_rows

if TYPE_CHECKING:
    import pandas as pd

SPENT = (*CAUSES, "again", "shuffle", "run")
"""The parts of a job's time: waits by cause, unused attempts, fetching map outputs, and other running time."""


def job_time(
    jobs: pd.DataFrame,
    first: pd.DataFrame,
    causes: Mapping[str, np.ndarray],
    used: pd.DataFrame,
) -> dict[str, Any]:
    """Divide the mean completion time of successful jobs into the parts in `SPENT`.

    Return the seconds of each part. The parts are the waits by cause, attempts whose result was not used, the
    shuffle and other running time. The entry `per_size` contains the same for each size class of jobs.
    `first` contains the launched tasks (from `waits.first_assignments`). `causes` maps each cause to the
    seconds for which each of these tasks waited. `used` contains one attempt of each task: the one whose
    result was used. Each job's completion time is divided in proportion to the seconds of its tasks, so the
    parts add up to the completion time.
    """
    done = jobs[(jobs["state"] == "succeeded") & jobs["finish"].notna()]
    completion = (done["finish"] - done["submit"]).to_numpy(float)
    spent = _of_jobs(places_of(done["job"], first["job"]), len(done), _of_tasks(first, causes, used))
    whole = spent.sum(axis=1, keepdims=True)
    alone = np.array([name == "run" for name in SPENT], float)  # The parts of a job without tasks.
    parts = np.where(whole > 0, spent / np.where(whole > 0, whole, 1.0), alone) * completion[:, None]
    return {
        **_means(parts),
        "per_size": {size: _means(parts[rows]) for size, rows in size_rows(done).items()},
    }


def _of_tasks(first: pd.DataFrame, causes: Mapping[str, np.ndarray], used: pd.DataFrame) -> np.ndarray:
    """Return the seconds that each task in `first` (row) spent in each part of `SPENT` (column).

    `causes` contains the waits of the tasks by cause. `used` contains one attempt of each task: the one
    whose result was used. Unknown times are 0.
    """
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
    """Return the sums of the rows of `tasks` for each of the `jobs` jobs, one row per job.

    `place` contains the index of the job of each task, or -1 for a task to be ignored.
    """
    known = place >= 0
    sums = [np.bincount(place[known], column[known], jobs) for column in tasks.T]
    return np.column_stack(sums) if jobs else np.zeros((0, len(SPENT)))


def _means(parts: np.ndarray) -> dict[str, float]:
    means = parts.mean(axis=0) if len(parts) else np.full(len(SPENT), np.nan)
    return dict(zip(SPENT, means.tolist(), strict=True))
