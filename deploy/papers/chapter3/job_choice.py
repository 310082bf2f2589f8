"""Policies that choose the next job: COSHH, LsPS and BalancedPool, compared with FIFO and Fair."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from schedbed.deploy.papers.bench import Bench, FinishedRun
from schedbed.deploy.papers.chapter3.runs import (
    FAIR,
    FIFO,
    MEAN,
    Job,
    gains,
    job,
    nodes,
    on_nodes,
    reviewed,
    run_each,
)
from schedbed.deploy.papers.experiment import FEW_REPEATS, Measured, percent_less
from schedbed.scheduler.models.johnson import PlannedStages
from schedbed.tasks.chance import Coin, chance
from schedbed.tasks.workloads.drawn import heavy_tailed

# The policy COSHH, compared with FIFO and Fair on fast and slow nodes with CPU-bound and I/O-bound jobs.
#
# COSHH prefers jobs that run well on a node's hardware. The CPU time of a synthetic task is the same on cores
# of any speed. Slow nodes therefore lose CPU to a foreground load instead of having slower cores.

JOBS, APART_S = 20, 25.0
USERS = 4
MAPS = (4, 24)  # range of the number of maps of a job
OLD = {"foreground": 0.75, "disk": "40MB/s"}  # a quarter of the CPU and half of the disk rate of new nodes
FAIR_FIFO, COSHH = "fair:inside=fifo", "coshh"


def coshh_jobs(seed: int) -> list[Job]:
    """Return random CPU-bound and I/O-bound jobs with exponentially distributed gaps between submissions."""
    coin, now_s, made = chance(seed, "chapter3 coshh"), 0.0, []
    for _ in range(JOBS):
        user, maps = f"user{coin.randrange(USERS)}", coin.randint(*MAPS)
        made.append(coin.choice((computing, reading))(user, now_s, maps))
        now_s += coin.expovariate(1 / APART_S)
    return made


def computing(user: str, submit_s: float, maps: int) -> Job:
    """Return a CPU-bound job: each of its maps computes for 20 s on one core."""
    return job("compute", user, submit_s, (maps, 20.0), (1, 5.0))


def reading(user: str, submit_s: float, maps: int) -> Job:
    """Return an I/O-bound job: each of its maps reads 128 MB and computes for 2 s."""
    each = job("read", user, submit_s, (maps, 2.0), (1, 5.0))
    each["map"]["read"] = "128MB"
    return each


def two_speeds(seed: int) -> Mapping[str, Any]:
    """Return a scenario with equally many fast and slow nodes, under the policies FIFO, Fair and COSHH."""
    return {
        "cluster": {**nodes(1, 2, 1), "nodes": [{"count": 3}, {"count": 3, **OLD}]},
        "workload": {"jobs": coshh_jobs(seed)},
        "policies": [FIFO, FAIR, FAIR_FIFO, COSHH],
    }


def _on_fast(runs: Sequence[FinishedRun], policy: str) -> list[float]:
    """Return the percentage of the CPU-bound jobs' maps that ran on a fast node, for each run."""
    return [on_nodes(finished, policy, "compute", ("n1", "n2", "n3")) for finished in runs]


def coshh(bench: Bench) -> Measured:
    """Measure by how many percent the policy COSHH reduces the mean completion time against FIFO and Fair."""
    runs = run_each(bench, "coshh", two_speeds)
    than = {"fifo": FIFO, "fair": FAIR, "fair_fifo": FAIR_FIFO}
    return Measured(
        values={
            **{name: gains(runs, COSHH, policy, *MEAN) for name, policy in than.items()},
            "compute_on_fast": _on_fast(runs, COSHH),
            "compute_on_fast_fair": _on_fast(runs, FAIR_FIFO),
        }
    )


# The policy LsPS, compared with FIFO and Fair for users with different job sizes and for a single user. LsPS
# gives more slots to users with small jobs.

LSPS = "lsps"
MAP_S = 10.0
SPAN_S = 400.0


def two_users(coin: Coin, seed: int) -> list[Job]:
    """Return 24 small jobs of one user and 6 large jobs of another, submitted at random times."""
    small = [job("small", "many", coin.uniform(0, SPAN_S), (coin.randint(1, 8), MAP_S)) for _ in range(24)]
    large = [job("large", "few", coin.uniform(0, SPAN_S), (coin.randint(40, 100), MAP_S)) for _ in range(6)]
    return small + large


def alike(coin: Coin, seed: int) -> list[Job]:
    """Return 16 jobs of one user with 32 maps each, submitted at random times."""
    return [job("alike", "one", coin.uniform(0, SPAN_S), (32, MAP_S)) for _ in range(16)]


def uneven(coin: Coin, seed: int) -> list[Job]:
    """Return 40 jobs of one user. Their sizes follow a bounded Pareto law, so most of them are small."""
    sizes = heavy_tailed(40, 1.0, 4, 100, seed)
    return [job("uneven", "one", coin.uniform(0, SPAN_S), (round(size), MAP_S)) for size in sizes]


def users(seed: int, *, jobs: Callable[[Coin, int], list[Job]]) -> Mapping[str, Any]:
    """Return a scenario with eight nodes of two map slots each, under the policies LsPS, FIFO and Fair.

    The function `jobs` draws the jobs, which keep about 80% of the map slots busy.
    """
    drawn = jobs(chance(seed, "chapter3 lsps", jobs.__name__), seed)
    return {
        "cluster": nodes(8, 2, 1),
        "workload": {"jobs": sorted(drawn, key=lambda each: float(each["submit"][:-1]))},
        "policies": [FIFO, FAIR, LSPS],
    }


def lsps(bench: Bench) -> Measured:
    """Measure by how many percent the policy LsPS reduces the mean completion time against FIFO and Fair."""
    found: dict[str, list[float]] = {}
    for name, jobs in (("users", two_users), ("alike", alike), ("uneven", uneven)):
        runs = run_each(bench, f"lsps-{name}", partial(users, jobs=jobs))
        found[f"{name}_fifo"] = gains(runs, LSPS, FIFO, *MEAN)
        found[f"{name}_fair"] = gains(runs, LSPS, FAIR, *MEAN)
        if name == "users":
            found["small"] = gains(runs, LSPS, FAIR, "completion_s", "per_user", "many", "mean")
            found["large"] = gains(runs, LSPS, FAIR, "completion_s", "per_user", "few", "mean")
        else:
            found[f"{name}_fifo_fair"] = gains(runs, FIFO, FAIR, *MEAN)
    return Measured(values=found)


# Johnson's order and the policy BalancedPool, compared with FIFO on a batch of jobs.
#
# All jobs of a batch are submitted at the same time. Johnson's order sorts jobs with a map stage and a reduce
# stage such that the makespan is short. BalancedPool divides jobs and slots into a pool of small jobs and a
# pool of big jobs, each with Johnson's order.

JOHNSON, POOLS = "balancedpool:steps=0", "balancedpool"
USER = "batch"
SLOTS = 16  # of each kind, one per node
BATCH_S = 1000.0  # submission of the batch, after a small run of each job for its task times


def even_batch(coin: Coin) -> list[Job]:
    """Return 20 random jobs, drawn with `coin`. Each has enough tasks to fill all slots of the cluster."""
    return [
        job(f"even{number}", USER, BATCH_S, _stage(coin, 16, 64, 5, 60), _stage(coin, 16, 48, 5, 60))
        for number in range(20)
    ]


def uneven_batch(coin: Coin) -> list[Job]:
    """Return 20 random jobs in random order: 10 with many short tasks, and 10 with a few long tasks.

    The jobs with few tasks cannot fill all slots of the cluster.
    """
    big = [
        job(f"big{number}", USER, BATCH_S, _stage(coin, 64, 128, 5, 30), _stage(coin, 32, 64, 5, 30))
        for number in range(10)
    ]
    small = [
        job(f"small{number}", USER, BATCH_S, _stage(coin, 2, 8, 60, 300), _stage(coin, 1, 4, 60, 300))
        for number in range(10)
    ]
    made = big + small
    coin.shuffle(made)
    return made


def _stage(coin: Coin, least: int, most: int, shortest_s: float, longest_s: float) -> tuple[int, float]:
    return coin.randint(least, most), coin.uniform(shortest_s, longest_s)


BATCHES = {"even": even_batch, "uneven": uneven_batch}


def batch_of(name: str, seed: int) -> list[Job]:
    """Return the random jobs of the batch `name`."""
    return BATCHES[name](chance(seed, "chapter3 balancedpool", name))


def batches(seed: int, *, name: str) -> Mapping[str, Any]:
    """Return a scenario in which sixteen nodes run a random batch of jobs, one of `BATCHES`.

    A node has one map slot and one reduce slot. A small run of each job precedes the batch, so that policies
    know its task times.
    """
    batch = batch_of(name, seed)
    earlier = [{**each, "maps": 1, "reduces": 1, "submit": "0s"} for each in batch]
    return {
        "cluster": nodes(SLOTS, 1, 1),
        "workload": {"jobs": earlier + batch},
        "policies": [FIFO, JOHNSON, POOLS],
    }


def stages(job: Job) -> PlannedStages:
    """Return the numbers of maps and reduces of the job, and their durations in s."""
    map_s, reduce_s = (float(job[phase]["cpu"][:-1]) for phase in ("map", "reduce"))
    return PlannedStages(job["name"], job["maps"], map_s, job["reduces"], reduce_s)


def least_s(batch: list[PlannedStages]) -> float:
    """Return a lower bound in s of the makespan of the batch. The bound holds for every order of the jobs."""
    maps_s = sum(each.maps * each.map_s for each in batch) / SLOTS
    reduces_s = sum(each.reduces * each.reduce_s for each in batch) / SLOTS
    alone_s = max(sum(each.on(SLOTS, SLOTS)) for each in batch)
    return max(
        maps_s + min(each.reduce_s for each in batch), reduces_s + min(each.map_s for each in batch), alone_s
    )


def makespan_s(finished: FinishedRun, policy: str) -> float:
    """Return the makespan in s of the batch under the policy. The run has one repeat."""
    return float(finished.of(policy).jobs["finish"].max()) - BATCH_S


def shorter(runs: list[FinishedRun], policy: str, than: str) -> list[float]:
    """Return by how many percent the batch's makespan is shorter under `policy` than under the policy `than`.

    The result has one number per repeat.
    """
    return [percent_less(makespan_s(mine, policy), makespan_s(mine, than)) for mine in runs]


def room(bench: Bench, runs: list[FinishedRun], name: str) -> list[float]:
    """Return how far the makespan in Johnson's order is above a lower bound, in percent of the makespan.

    `least_s` computes the lower bound. `name` is the name of the batch. The result has one number
    per repeat.
    """
    found = []
    for repeat, finished in enumerate(runs):
        least = least_s([stages(each) for each in batch_of(name, bench.seed + repeat)])
        found.append(percent_less(least, makespan_s(finished, JOHNSON)))
    return found


def balancedpool(bench: Bench) -> Measured:
    """Measure how much the policies Johnson's order and BalancedPool reduce the makespans of two batches.

    The reductions are percentages of the makespan under FIFO. BalancedPool is also compared with Johnson's
    order.
    """
    found: dict[str, list[float]] = {}
    for name in BATCHES:
        runs = run_each(bench, f"balancedpool-{name}", partial(batches, name=name))
        found[f"{name}_johnson"] = shorter(runs, JOHNSON, FIFO)
        found[f"{name}_pools"] = shorter(runs, POOLS, FIFO)
        found[f"{name}_room"] = room(bench, runs, name)
        found[f"{name}_pools_johnson"] = shorter(runs, POOLS, JOHNSON)
    return Measured(values=found)


EXPERIMENTS = (
    reviewed("coshh", coshh, 15, FEW_REPEATS),
    reviewed("lsps", lsps, 35, FEW_REPEATS),
    reviewed("balancedpool", balancedpool, 35, FEW_REPEATS),
)
