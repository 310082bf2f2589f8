"""The figures of each queue and each user: what its jobs had to wait, what it held, and what it lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from schedbed.deploy.results.measures import waits
from schedbed.deploy.results.measures.coded import Coded
from schedbed.deploy.results.measures.row_values import texts_of
from schedbed.deploy.results.measures.series import Intervals

if TYPE_CHECKING:
    import pandas as pd


def by_group(
    column: str, jobs: pd.DataFrame, attempts: pd.DataFrame, used: pd.DataFrame, end_s: float
) -> dict[str, Any]:
    """Return the figures of each value of the jobs' `column`, `queue` or `user`.

    `used` are the attempts whose results were used. `share_held` is the group's part of all running attempts, over the
    time in which it had an unfinished job.
    """
    names = dict(zip(texts_of(jobs["job"]), texts_of(jobs[column]), strict=True))
    of_attempts = Coded.mapped(attempts["job"], names)
    running = Intervals.of(attempts, of_attempts, end_s)
    all_up_to = running.running().integrator()
    lost = attempts["cpu_s"].to_numpy(float).copy()
    lost[attempts.index.get_indexer(used.index)] = 0.0
    killed = (attempts["state"] == "killed").to_numpy()
    found: dict[str, Any] = {}
    for name, rows in Coded.of(jobs[column]).rows().items():
        mine, own = jobs.iloc[rows], of_attempts.is_name(name)
        done = mine[mine["state"] == "succeeded"]
        spans = _spans(mine, end_s)
        held = _area(running.running(name).integrator(), spans)
        whole = _area(all_up_to, spans)
        finish, deadline = mine["finish"].to_numpy(float), mine["deadline"].to_numpy(float)
        found[name] = {
            "jobs": float(len(mine)),
            "succeeded": float(len(done)),
            "completion_s": waits.spread((done["finish"] - done["submit"]).to_numpy(float)),
            "wait_s": waits.spread(waits.job_waits(mine)),
            "share_held": held / whole if whole else float("nan"),
            "killed": float(killed[own].sum()),
            "waste_cpu_s": float(lost[own].sum()),
            "late": float((np.where(np.isnan(finish), end_s, finish) > deadline).sum()),
        }
    return found


def _spans(jobs: pd.DataFrame, end_s: float) -> list[tuple[float, float]]:
    """Return the times in which one of the jobs was unfinished, as disjoint intervals."""
    ends = np.where(jobs["finish"].isna(), end_s, jobs["finish"])
    found: list[tuple[float, float]] = []
    for start, end in sorted(zip(jobs["submit"].tolist(), ends.tolist(), strict=True)):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found


def _area(up_to: Any, spans: list[tuple[float, float]]) -> float:
    edges = np.array(spans, float).reshape(-1, 2)
    return float((up_to(edges[:, 1]) - up_to(edges[:, 0])).sum())
