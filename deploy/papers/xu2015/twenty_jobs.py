"""The workload and the cluster of sections 5.1.1 and 5.1.2: twenty I/O-bound jobs of three users, 30 s apart.

Users (except of the first three jobs, by Tables 6 and 7) and numbers of maps are random, other ones in each
repeat, so intervals are about all such workloads. Tasks read and write as SWIM's. The rest of a Hadoop
attempt counts as a JVM's start, as long for a part of a map as for a whole one. Equal pools are served by
name, as in Hadoop's Fair Scheduler and as Table 6 suggests. The JVM's start and the wait for a local slot are
fitted to Table 6 and to Figure 15's 141 epochs, the same for all figures, live and simulated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from schedbed.deploy.papers.bench import Bench, FinishedRun
from schedbed.deploy.papers.live_and_simulated import hadoop1
from schedbed.deploy.results.measures.series import Intervals
from schedbed.deploy.results.metrics import RunTables, makespan
from schedbed.tasks.chance import chance

NODES = 5
JOBS, APART_S = 20, 30
USERS = ("user0", "user1", "user2")
FIRST_USERS = ("user2", "user1", "user0")
LEAST_MAPS, MOST_MAPS = 5, 10
BLOCK = "64MB"
HOT = 0.2  # share of the nodes that hold all input under skew
HEARTBEAT_S = 3
LIVE_SCALE = 0.05

START_S, WAIT_S = 5.5, 62
"""Fitted, since the thesis does not print them: the start of an attempt, and T1, a job's wait for a local slot."""

WAITS = f"node_wait={WAIT_S:g}s,rack_wait=0s,ties=name"
"""T2, the wait for a slot in the rack, is 0: Algorithm 1 does not have it."""
DELAY, QUARTER, MOST = f"delay:{WAITS}", f"dtss:p=0.25,{WAITS}", f"dtss:p=0.75,{WAITS}"
LEARNT = QUARTER.replace("p=0.25", "p=auto")
COPIES = f"{QUARTER},keep_copy=true"
NAMES = {DELAY: "delay", QUARTER: "P=0.25", MOST: "P=0.75", LEARNT: "P=auto", COPIES: "P=0.25, copies kept"}

ONLY_STARTS = {**dict.fromkeys(("init", "setup", "cleanup", "localize", "fetch_poll"), 0.0), "jvm": START_S}

LAYOUTS: Mapping[str, Any] = {"skewed": {"skewed": HOT}, "even": "even"}
"""`blocks.placement` by layout: all input on one node, or each job's blocks over all nodes as evenly as can be."""


def jobs(seed: int) -> list[dict[str, Any]]:
    """Return the random jobs of a seed as in a scenario file."""
    coin, made = chance(seed, "xu2015"), []
    for number in range(JOBS):
        task = {"cpu": "0s", "write": BLOCK}
        user = coin.choice(USERS)
        made.append(
            {
                "name": f"job{number + 1}",
                "app": "synthetic",
                "user": FIRST_USERS[number] if number < len(FIRST_USERS) else user,
                "maps": coin.randint(LEAST_MAPS, MOST_MAPS),
                "map": {**task, "read": BLOCK},
                "reduces": 1,
                "reduce": task,
                "submit": f"{number * APART_S}s",
            }
        )
    return made


def scenario(
    jobs: Sequence[Mapping[str, Any]],
    policies: Sequence[str],
    *,
    layout: str,
    live: bool,
) -> dict[str, Any]:
    """Return a scenario on five nodes of one map and one reduce slot; live, all at a scale of 1/20.

    `layout` places the input (`LAYOUTS`).
    """
    scale = LIVE_SCALE if live else 1.0
    node = {
        # Tasks compute nothing but what moves their bytes.
        **({"cores": 1, "core_speed": 0.4} if live else {"cores": 4, "core_speed": 1.0}),
        "memory": "4GiB",
        "disk": "60MB/s",
        "network": "100Mbit/s",
        "map_slots": 1,
        "reduce_slots": 1,
    }
    return {
        "framework": hadoop1(scale, ONLY_STARTS, out_of_band=True),
        "scale": scale,
        "cluster": {"nodes": NODES, "heartbeat": f"{scale * HEARTBEAT_S:g}s", "node": node},
        "blocks": {"size": BLOCK, "replication": 1, "placement": LAYOUTS[layout]},
        "workload": {"jobs": list(jobs)},
        "policies": list(policies),
    }


def run_twenty_jobs(bench: Bench, *, layout: str = "skewed") -> list[FinishedRun]:
    """Run the scenario with other jobs in each repeat, and return each. `layout` is of `LAYOUTS`."""
    policies = [DELAY, QUARTER] if layout != "skewed" else [DELAY, QUARTER, MOST]
    if layout == "skewed" and not bench.live:
        policies += [LEARNT, COPIES]

    def drawn(seed: int) -> dict[str, Any]:
        return scenario(jobs(seed), policies, layout=layout, live=bench.live)

    return bench.run(layout, drawn).split()


def held_slots(finished: FinishedRun, policy: str) -> RunTables:
    """Return the first repeat's tables with starts at assignment: slots in use, not running code."""
    run = finished.of(policy)
    attempts = run.attempts.assign(start=run.attempts["assigned"])
    return replace(run, tables={**run.tables, "attempts": attempts})


def makespans(finished: FinishedRun, policy: str) -> Mapping[str, float]:
    """Return each user's makespan without the scale."""
    by_user = makespan(finished.of(policy).jobs)["per_user"]
    return {user: took_s / finished.scale for user, took_s in by_user.items()}


def gains(finished: FinishedRun, policy: str, than: str = DELAY) -> list[float]:
    """Return by how many percent each user's makespan is shorter than under `than`."""
    mine, theirs = makespans(finished, policy), makespans(finished, than)
    return [100 * (1 - mine[user] / theirs[user]) for user in theirs]


# The scheduling epochs of Figure 15 and Tables 6 to 9: users' map slots and fair share ratios by epoch.
#
# An epoch is a fixed number of seconds. A ratio is a user's map slots divided by the user's fair share.

EPOCHS = 20  # number of epochs in the tables
EPOCHS_BETWEEN_JOBS = 5  # users appear in epochs 1, 6 and 11, and jobs are 30 s apart
EPOCH_S = APART_S / EPOCHS_BETWEEN_JOBS


def epochs(run: RunTables, scale: float) -> float:
    """Return the epochs until the last map's end. `scale` shortens times."""
    return float(run.attempts.loc[run.attempts["kind"] == "map", "end"].max()) / (EPOCH_S * scale)


def slots(run: RunTables, epoch_s: float) -> Mapping[str, np.ndarray]:
    """Return each user's mean running maps by epoch, up to the last job's end."""
    owners = run.jobs.set_index("job")["user"]
    maps = run.attempts[run.attempts["kind"] == "map"]
    tasks = Intervals.of(maps, maps["job"].map(owners).to_numpy(str), run.end_s)
    edges = np.arange(0.0, run.jobs["finish"].max() + epoch_s, epoch_s)
    return {user: tasks.binned(user, edges) for user in USERS}


def ratios(held: Mapping[str, np.ndarray], run: RunTables, epoch_s: float) -> Mapping[str, np.ndarray]:
    """Return users' running maps / fair share (equations 40, 41) by epoch, from a user's first job to the 20th."""
    submits = run.jobs.groupby("user")["submit"].min()
    first = {str(user): round(submit_s / epoch_s) for user, submit_s in submits.items()}
    users = np.array([sum(came <= epoch for came in first.values()) for epoch in range(EPOCHS)])
    share = NODES / users  # map slots per user, with one map slot per node
    return {user: held[user][came:EPOCHS] / share[came:] for user, came in first.items() if came < EPOCHS}


def off_fair(found: Mapping[str, np.ndarray]) -> float:
    """Return the mean distance of ratios from 1, over users and epochs."""
    return float(np.abs(np.concatenate(list(found.values())) - 1).mean())


def off_table(found: Mapping[str, np.ndarray], printed: Mapping[str, np.ndarray]) -> float:
    """Return the mean absolute difference from a printed table's cells, which end with epoch 20."""
    apart = [np.abs(found[user][:EPOCHS][-len(cells) :] - cells) for user, cells in printed.items()]
    return float(np.concatenate(apart).mean())
