"""Policies that share the slots among users: HOD's private clusters, and DP, in which users bid for slots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from schedbed.deploy.papers.bench import Bench, FinishedRun
from schedbed.deploy.papers.chapter3.runs import (
    FAIR,
    LOCAL,
    MEAN,
    Job,
    figures_of,
    gains,
    job,
    nodes,
    reviewed,
    run_each,
)
from schedbed.deploy.papers.experiment import Measured, by_repeat, minus
from schedbed.tasks.chance import chance

MACHINES, MAP_SLOTS = 8, 16


class SlotUse:
    """The map slots that each user holds and the maps that wait, in each second of a finished run.

    `held` and `waiting` are dictionaries from user to a number for each second of `times`.
    """

    def __init__(self, finished: FinishedRun, policy: str) -> None:
        run = finished.of(policy)
        user = run.jobs.set_index("job")["user"]
        maps = run.attempts[run.attempts["kind"] == "map"]
        owner = maps["job"].map(user)
        done = maps["state"] == "succeeded"
        self.times = np.arange(0.0, float(maps["end"].max()), 1.0)
        self.held: dict[str, Any] = {}
        self.waiting: dict[str, Any] = {}
        for name, jobs in run.jobs.groupby("user"):
            mine = owner == name
            self.held[str(name)] = self._until(maps["assigned"][mine]) - self._until(maps["end"][mine])
            asked = self._until(jobs["submit"].repeat(jobs["maps"].tolist()))
            self.waiting[str(name)] = asked - self._until(maps["end"][mine & done]) - self.held[str(name)]

    def _until(self, moments: pd.Series[float]) -> Any:
        """Return how many of the moments have passed at each second."""
        return np.searchsorted(np.sort(moments.to_numpy(float)), self.times, side="right")

    def used(self) -> float:
        """Return the mean percentage of the map slots in use, until the last map ends."""
        return 100 * float(np.mean(sum(self.held.values()))) / MAP_SLOTS

    def starved(self) -> float:
        """Return the percentage of the time in which a user's map waits although a map slot is idle."""
        idle = sum(self.held.values()) < MAP_SLOTS
        waits = np.any([each > 0 for each in self.waiting.values()], axis=0)
        return 100 * float((idle & waits).mean())

    def variation(self) -> float:
        """Return the deviation of a user's slots over the mean, while maps of the user wait; the users' mean."""
        found = []
        for name, held in self.held.items():
            mine = held[self.waiting[name] > 0]
            if len(mine) > 1 and mine.mean() > 0:
                found.append(float(mine.std() / mine.mean()))
        return float(np.mean(found))

    def between(self, name: str, begin_s: float, end_s: float) -> float:
        """Return the mean number of slots that a user holds from `begin_s` to `end_s`."""
        return float(self.held[name][(self.times >= begin_s) & (self.times < end_s)].mean())


def drawn_jobs(seed: int, users: Sequence[str], count: int, gap_s: float) -> list[Job]:
    """Return random jobs of random users that read their input, with exponentially distributed gaps."""
    coin, now_s, made = chance(seed, "chapter3 shares", *users), 0.0, []
    for _ in range(count):
        user = coin.choice(users)
        each = job("job", user, now_s, (coin.randint(4, 40), 10.0), queue=user)
        each["map"]["read"] = "64MB"
        made.append(each)
        now_s += coin.expovariate(1 / gap_s)
    return made


# The policy HOD, compared with Capacity. Both give half of the cluster to each of two users. HOD lends nothing.

HOD = "hod"
TWO = ("ana", "bo")


def two_clusters(seed: int) -> Mapping[str, Any]:
    """Return a scenario with two users whose jobs keep about 80% of the map slots busy, under HOD and Capacity."""
    queue = {"capacity": 50, "user_limit_factor": 2}
    return {
        "cluster": nodes(MACHINES, 2, 1),
        "workload": {"jobs": drawn_jobs(seed, TWO, 24, 17.0)},
        "policies": [HOD, {"capacity": {"queues": dict.fromkeys(TWO, queue)}}],
    }


def hod(bench: Bench) -> Measured:
    """Measure how the use of slots, completion times and locality differ between HOD and Capacity."""
    runs = run_each(bench, "hod", two_clusters)
    private, shared = runs[0].policies
    mine, theirs = ([SlotUse(finished, policy) for finished in runs] for policy in (private, shared))
    used, used_shared = ([each.used() for each in uses] for uses in (mine, theirs))
    starved, starved_shared = ([each.starved() for each in uses] for uses in (mine, theirs))
    near, near_shared = (
        [100 * each for each in figures_of(runs, policy, *LOCAL)] for policy in (private, shared)
    )
    return Measured(
        values={
            "used": used,
            "used_more": minus(used_shared, used),
            "starved": starved,
            "starved_more": minus(starved, starved_shared),
            "makespan": gains(runs, shared, private, "makespan_s"),
            "completion": gains(runs, shared, private, *MEAN),
            "local": near,
            "local_more": minus(near_shared, near),
        }
    )


# The policy DP. Users bid for slots in each interval of 20 s and pay from a budget. Nodes have no reduce slots, since
# a user pays less for the map slots alone if reduce slots stay free.

RICH, POOR = "rich", "poor"
BIDS = {RICH: 3.0, POOR: 1.0}
BOUGHT_S, AFTER_S = (40.0, 180.0), (260.0, 400.0)
BUDGET = 20.0  # of the users of one bid each: 400 s


def bidders(seed: int) -> Mapping[str, Any]:
    """Return a scenario in which two users have maps for all slots, and one bids three times as much.

    This user's budget lasts for ten intervals.
    """
    coin = chance(seed, "chapter3 dp")
    jobs = [job("long", user, 0.0, (500, coin.uniform(8, 12))) for user in BIDS]
    accounts = {
        RICH: {"budget": 10 * BIDS[RICH], "bid": BIDS[RICH]},
        POOR: {"budget": 1000, "bid": BIDS[POOR]},
    }
    return {
        "cluster": nodes(MACHINES, 2, 0),
        "workload": {"jobs": jobs},
        "policies": [{"dp": {"accounts": accounts}}],
    }


def small_and_large(seed: int) -> Mapping[str, Any]:
    """Return a scenario in which a user with small jobs and one with large jobs have equal bids and budgets."""
    coin = chance(seed, "chapter3 dp sizes")
    small = [job("small", "small", 0.0, (coin.randint(1, 8), 10.0)) for _ in range(120)]
    large = [job("large", "large", 0.0, (coin.randint(20, 60), 10.0)) for _ in range(14)]
    return {
        "cluster": nodes(MACHINES, 2, 0),
        "workload": {"jobs": small + large},
        "policies": [{"dp": {"budget": BUDGET, "bid": 1}}],
    }


def four_bidders(seed: int) -> Mapping[str, Any]:
    """Return a scenario in which four users with random jobs bid 1 to 4 from equal budgets, under DP and Fair."""
    users = ("u1", "u2", "u3", "u4")
    accounts = {user: {"budget": 40, "bid": bid} for bid, user in enumerate(users, 1)}
    return {
        "cluster": nodes(MACHINES, 2, 0),
        "workload": {"jobs": drawn_jobs(seed, users, 32, 15.0)},
        "policies": [{"dp": {"accounts": accounts}}, FAIR],
    }


def dp(bench: Bench) -> Measured:
    """Measure what bids buy, which jobs end before equal budgets are spent, and how much a user's slots vary."""
    found = by_repeat(_bought(finished) for finished in run_each(bench, "dp-bids", bidders))
    ended = by_repeat(_ended(finished) for finished in run_each(bench, "dp-sizes", small_and_large))
    varying = run_each(bench, "dp-users", four_bidders)
    mine, theirs = ([SlotUse(run, policy).variation() for run in varying] for policy in varying[0].policies)
    return Measured(
        values={
            **found,
            "small": ended["small"],
            "large": ended["large"],
            "small_more": minus(ended["small"], ended["large"]),
            "varies": mine,
            "varies_more": minus(mine, theirs),
        }
    )


def _bought(finished: FinishedRun) -> dict[str, float]:
    use = SlotUse(finished, finished.policies[0])
    first, after = use.between(RICH, *BOUGHT_S), use.between(RICH, *AFTER_S)
    return {"bought": first / use.between(POOR, *BOUGHT_S), "after": 100 * after / MAP_SLOTS}


def _ended(finished: FinishedRun) -> dict[str, float]:
    """Return how many jobs of each user have ended when equal budgets are spent."""
    jobs = finished.of(finished.policies[0]).jobs
    ended = jobs[jobs["finish"] <= BUDGET * 20.0]["user"].value_counts()
    return {name: float(ended.get(name, 0)) for name in ("small", "large")}


EXPERIMENTS = (
    reviewed("hod", hod, 90),
    reviewed("dp", dp, 60),
)
