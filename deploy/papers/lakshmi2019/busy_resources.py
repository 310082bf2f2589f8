"""The use of CPU and disk while a group of jobs runs, and the time in which the jobs of a group run together.

No policy can gain from a resource that is busy all the time.
"""

from __future__ import annotations

import numpy as np

from schedbed.deploy.papers.bench import FinishedRun
from schedbed.deploy.results.metrics import RunTables, heartbeat_intervals


def rooms(finished: FinishedRun) -> list[list[float]]:
    """Return by how many percent any policy could shorten each group's makespan under Capacity at most.

    No policy can be faster than the busiest resource needs for the group's work: the cores of all nodes
    together, or the disk that they share. The result has one list per group, with one number per repeat.
    """
    return _by_group([_rooms(run) for run in finished.each(finished.policies[0])])


def _rooms(run: RunTables) -> np.ndarray:
    """Return a run's share of each makespan in percent in which the busiest resource is idle."""
    by_submit = run.jobs.groupby("submit", sort=True)["finish"].max()
    began_s = by_submit.index.to_numpy(float)
    took_s = by_submit.to_numpy(float) - began_s
    heartbeats = run.tables["heartbeats"]
    covered_s = heartbeat_intervals(heartbeats)
    # A heartbeat is about the time before it, so one at a submission belongs to the group before.
    groups = np.clip(np.searchsorted(began_s, heartbeats["t"].to_numpy(float)) - 1, 0, None)
    cpu_s, disk_s = (
        np.bincount(groups, heartbeats[column].fillna(0.0).to_numpy(float) * covered_s, len(began_s))
        for column in ("cpu_util", "disk_util")
    )
    # Each node's shares are of its own cores, but of the whole shared disk.
    return 100 * (1 - np.maximum(cpu_s / len(run.nodes), disk_s) / took_s)


def together(finished: FinishedRun, policy: str) -> list[list[float]]:
    """Return for how much of the time until a pair's first job ends, in percent, both jobs run under `policy`.

    The result has one list per pair, with one number per repeat.
    """
    return _by_group([_together(run) for run in finished.each(policy)])


def _together(run: RunTables) -> np.ndarray:
    pairs = run.jobs.groupby("submit", sort=True)
    first_ends_s = pairs["finish"].min()
    both_s = first_ends_s - pairs["start"].max()
    return (
        100 * np.clip(both_s.to_numpy(float), 0, None) / (first_ends_s - first_ends_s.index).to_numpy(float)
    )


def _by_group(repeats: list[np.ndarray]) -> list[list[float]]:
    return np.transpose(repeats).tolist()
