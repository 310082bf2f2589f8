"""The scheduling epochs of Figure 15 and Tables 6 to 9: users' map slots and fair share ratios by epoch.

An epoch is a fixed number of seconds. A ratio is a user's map slots divided by the user's fair share.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from schedbed.deploy.papers.xu2015.twenty_jobs import APART_S, NODES, USERS
from schedbed.deploy.results.measures.series import Intervals
from schedbed.deploy.results.metrics import RunTables

EPOCHS = 20  # number of epochs in the tables
EPOCHS_BETWEEN_JOBS = 5  # users appear in epochs 1, 6 and 11, and jobs are 30 s apart
EPOCH_S = APART_S / EPOCHS_BETWEEN_JOBS


def epochs(run: RunTables, scale: float) -> float:
    """Return the number of scheduling epochs, intervals of fixed length, until the last map ended.

    `scale` is the factor by which the scenario shortens times.
    """
    return float(run.attempts.loc[run.attempts["kind"] == "map", "end"].max()) / (EPOCH_S * scale)


def slots(run: RunTables, epoch_s: float) -> Mapping[str, np.ndarray]:
    """Return the mean number of running maps in each epoch of `epoch_s` seconds, as a dictionary by user.

    The last epoch is the one in which the last job ended.
    """
    owners = run.jobs.set_index("job")["user"]
    maps = run.attempts[run.attempts["kind"] == "map"]
    tasks = Intervals.of(maps, maps["job"].map(owners).to_numpy(str), run.end_s)
    edges = np.arange(0.0, run.jobs["finish"].max() + epoch_s, epoch_s)
    return {user: tasks.binned(user, edges) for user in USERS}


def ratios(held: Mapping[str, np.ndarray], run: RunTables, epoch_s: float) -> Mapping[str, np.ndarray]:
    """Return each user's fair share ratios (equations 40 and 41) in the first 20 epochs of `epoch_s` seconds.

    A ratio is the number of running maps divided by the user's fair share of slots. `held` is a dictionary
    from user to running maps by epoch. A user's ratios begin with the epoch of the user's first job.
    """
    submits = run.jobs.groupby("user")["submit"].min()
    first = {str(user): round(submit_s / epoch_s) for user, submit_s in submits.items()}
    users = np.array([sum(came <= epoch for came in first.values()) for epoch in range(EPOCHS)])
    share = NODES / users  # map slots per user, with one map slot per node
    return {user: held[user][came:EPOCHS] / share[came:] for user, came in first.items() if came < EPOCHS}


def off_fair(found: Mapping[str, np.ndarray]) -> float:
    """Return the mean distance of fair share ratios from 1, over all users and epochs.

    `found` is a dictionary from user to ratios by epoch.
    """
    return float(np.abs(np.concatenate(list(found.values())) - 1).mean())


def off_table(found: Mapping[str, np.ndarray], printed: Mapping[str, np.ndarray]) -> float:
    """Return the mean absolute difference between the cells of a printed table and our values.

    `found` (ours) and `printed` are dictionaries from user to values by epoch. A user's printed cells end
    with epoch 20, and users whose jobs are submitted later have fewer cells.
    """
    apart = [np.abs(found[user][:EPOCHS][-len(cells) :] - cells) for user, cells in printed.items()]
    return float(np.concatenate(apart).mean())
