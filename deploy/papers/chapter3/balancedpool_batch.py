"""Johnson's order and the policy BalancedPool, compared with FIFO on a batch of jobs.

All jobs of a batch are submitted at the same time. Johnson's order sorts jobs with a map stage and a reduce
stage such that the makespan is short. BalancedPool divides jobs and slots into a pool of small jobs and a
pool of big jobs, each with Johnson's order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from schedbed.deploy.papers.bench import Bench, FinishedRun
from schedbed.deploy.papers.chapter3.runs import Job, job, nodes, run_each
from schedbed.deploy.papers.experiment import Experiment, Measured
from schedbed.deploy.papers.figures import draw_values
from schedbed.scheduler.models.johnson import PlannedStages, johnson
from schedbed.tasks.chance import Coin, chance

FIFO, JOHNSON, POOLS = "fifo", "balancedpool:steps=0", "balancedpool"
USER = "batch"
SLOTS = 16  # of each kind, one per node
BATCH_S = 1000.0  # submission of the batch, after a small run of each job for its task times


def even(coin: Coin) -> list[Job]:
    """Return 20 random jobs, drawn with `coin`. Each has enough tasks to fill all slots of the cluster."""
    return [
        job(f"even{number}", USER, BATCH_S, _stage(coin, 16, 64, 5, 60), _stage(coin, 16, 48, 5, 60))
        for number in range(20)
    ]


def uneven(coin: Coin) -> list[Job]:
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


def scenario(seed: int, *, jobs: Callable[[Coin], list[Job]], reverse: bool = False) -> Mapping[str, Any]:
    """Return a scenario in which sixteen nodes run a batch of jobs that the function `jobs` draws.

    A node has one map slot and one reduce slot. A small run of each job precedes the batch, so that policies
    know its task times. With `reverse`, the batch is submitted in the reverse of Johnson's order and runs
    under FIFO only.
    """
    batch = jobs(chance(seed, "chapter3 balancedpool", jobs.__name__))
    if reverse:
        by_name = {each["name"]: each for each in batch}
        ordered, _ = johnson([stages(each) for each in batch], SLOTS, SLOTS)
        batch = [by_name[each.job] for each in reversed(ordered)]
    earlier = [{**each, "maps": 1, "reduces": 1, "submit": "0s"} for each in batch]
    return {
        "cluster": nodes(SLOTS, 1, 1),
        "workload": {"jobs": earlier + batch},
        "policies": [FIFO] if reverse else [FIFO, JOHNSON, POOLS],
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


def shorter(
    runs: list[FinishedRun], policy: str, than: str, than_runs: list[FinishedRun] | None = None
) -> list[float]:
    """Return by how many percent the batch's makespan is shorter under `policy` than under the policy `than`.

    The result has one number per repeat. The makespans of `than` are taken from the runs `than_runs`, if
    given, or else also from `runs`.
    """
    pairs = zip(runs, than_runs or runs, strict=True)
    return [100 * (1 - makespan_s(mine, policy) / makespan_s(theirs, than)) for mine, theirs in pairs]


def room(bench: Bench, runs: list[FinishedRun], jobs: Callable[[Coin], list[Job]]) -> list[float]:
    """Return how far the makespan in Johnson's order is above a lower bound, in percent of the makespan.

    `least_s` computes the lower bound. `jobs` is the function that draws the batch of each run. The result
    has one number per repeat.
    """
    found = []
    for repeat, finished in enumerate(runs):
        batch = jobs(chance(bench.seed + repeat, "chapter3 balancedpool", jobs.__name__))
        found.append(100 * (1 - least_s([stages(each) for each in batch]) / makespan_s(finished, JOHNSON)))
    return found


def measure(bench: Bench) -> Measured:
    """Measure how much the policies Johnson's order and BalancedPool reduce the makespans of two batches.

    The reductions are percentages of the makespan under FIFO. BalancedPool is also compared with Johnson's
    order.
    """
    found: dict[str, list[float]] = {}
    for name, jobs in (("even", even), ("uneven", uneven)):
        runs = run_each(bench, f"balancedpool-{name}", partial(scenario, jobs=jobs))
        found[f"{name}_johnson"] = shorter(runs, JOHNSON, FIFO)
        found[f"{name}_pools"] = shorter(runs, POOLS, FIFO)
        reverse = run_each(bench, f"balancedpool-{name}-reverse", partial(scenario, jobs=jobs, reverse=True))
        found[f"{name}_johnson_reverse"] = shorter(runs, JOHNSON, FIFO, reverse)
        found[f"{name}_pools_reverse"] = shorter(runs, POOLS, FIFO, reverse)
        found[f"{name}_room"] = room(bench, runs, jobs)
        found[f"{name}_pools_johnson"] = shorter(runs, POOLS, JOHNSON)
    return Measured(values=found)


EXPERIMENT = Experiment(
    name="balancedpool", measure=measure, draw=draw_values, takes_s={"sim": 60}, repeats=10
)
