"""The division of jobs' completion times among what their tasks spent their time on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from schedbed.deploy.results.measures.wait_causes import CAUSES
from schedbed.deploy.results.measures.waits import SIZES, size_of

if TYPE_CHECKING:
    import pandas as pd

SPENT = (*CAUSES, "again", "shuffle", "run")
"""Waiting by cause, attempts whose result was not used, fetching map outputs, and the rest of the used attempts."""


def job_time(
    jobs: pd.DataFrame,
    first: pd.DataFrame,
    causes: Mapping[str, np.ndarray],
    used: pd.DataFrame,
) -> dict[str, Any]:
    """Return the mean seconds of a job by `SPENT`, over jobs that succeeded, in total and `per_size`.

    `first` are the tasks (`waits.first_assignments`), `causes` their waits (`wait_causes.task_causes`), `used` the
    attempt of each task whose result was used. The parts of a job are in proportion to the seconds of its tasks and
    add up to its completion time; so the means add up to the mean completion time.
    """
    done = jobs[(jobs["state"] == "succeeded") & jobs["finish"].notna()]
    completion = (done["finish"] - done["submit"]).to_numpy(float)
    spent = _of_jobs(done["job"].to_numpy(), first, _of_tasks(first, causes, used))
    whole = spent.sum(axis=1, keepdims=True)
    alone = np.array([name == "run" for name in SPENT], float)  # of a job without any task
    parts = np.where(whole > 0, spent / np.where(whole > 0, whole, 1.0), alone) * completion[:, None]
    sizes = np.array([size_of(count) for count in (done["maps"] + done["reduces"]).tolist()], dtype=object)
    return {
        **_means(parts),
        "per_size": {size: _means(parts[sizes == size]) for size in SIZES if (sizes == size).any()},
    }


def _of_tasks(first: pd.DataFrame, causes: Mapping[str, np.ndarray], used: pd.DataFrame) -> np.ndarray:
    """Return the seconds of each task, a column for each of `SPENT`; zeros for what is unknown."""
    mine = used.set_index("task").reindex(first.index)
    assigned, start, end = (mine[name].to_numpy(float) for name in ("assigned", "start", "end"))
    fetched = np.clip(mine["shuffle_end"].to_numpy(float) - start, 0.0, None)
    shuffle = np.where((first["kind"] == "reduce").to_numpy(), np.nan_to_num(fetched), 0.0)
    again = assigned - first["assigned"].to_numpy(float)
    columns = [*(causes[cause] for cause in CAUSES), again, shuffle, end - assigned - shuffle]
    return np.clip(np.nan_to_num(np.column_stack(columns)), 0.0, None)


def _of_jobs(jobs: np.ndarray, first: pd.DataFrame, tasks: np.ndarray) -> np.ndarray:
    """Return the sums over each job's tasks."""
    place = {job: row for row, job in enumerate(jobs)}
    rows = np.array([place.get(job, -1) for job in first["job"]], int)
    made = np.zeros((len(jobs), len(SPENT)))
    np.add.at(made, rows[rows >= 0], tasks[rows >= 0])
    return made


def _means(parts: np.ndarray) -> dict[str, float]:
    means = parts.mean(axis=0) if len(parts) else np.full(len(SPENT), np.nan)
    return dict(zip(SPENT, means.tolist(), strict=True))
