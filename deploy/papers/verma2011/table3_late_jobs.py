"""Table 3: the late jobs and the load in simulations of the workloads W1 and W2.

A job arrives when the cluster's load with this job is below a threshold. The load is the sum of the shares of
map and reduce slots in use.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from schedbed.deploy.papers import paper_file
from schedbed.deploy.papers.bench import Bench
from schedbed.deploy.papers.experiment import Experiment, Measured, Values
from schedbed.deploy.papers.figures import beside_paper
from schedbed.deploy.papers.verma2011.arrivals import ALL_MAPS, simulate_jobs
from schedbed.deploy.papers.verma2011.w1_and_w2 import BOUND, WORKLOADS, DueJob, seed_of, workload
from schedbed.deploy.results.plots import OKABE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

THRESHOLDS = (105, 100, 95, 90, 85)
JOBS, FULL_JOBS, FULL_RUNS = 50, 100, 100
FIRST_MAP = "first_map"
"""When reduces start in Algorithm 1 (line 15): once a map of their job is done."""

WITH_RESERVE = (105, 100)
"""The thresholds at which the paper has late jobs."""

AT_FIRST = 95
"""The threshold at which reduces also start with the first maps, for comparison."""


def measure(bench: Bench, jobs: int | None = None) -> Measured:
    """Measure the late jobs and the load of both workloads for each load threshold.

    Each repeat draws other jobs, `jobs` in number. They are the same for all thresholds, except that a
    deadline for which the job could never start below the threshold is drawn again.
    """
    jobs = jobs or (FULL_JOBS if bench.full else JOBS)
    said = paper_file.load("verma2011").experiments["table2"].values
    found: dict[str, list[float]] = defaultdict(list)
    for repeat in range(bench.repeats):
        seed = seed_of(bench.seed, repeat)
        for name in WORKLOADS:
            for threshold in THRESHOLDS:
                drawn = workload(name, said, jobs, threshold / 100, seed)
                for key, value in columns(bench, drawn, threshold, seed).items():
                    if key != "reserve" or threshold in WITH_RESERVE:
                        found[f"{name}_{threshold}_{key}"].append(value)
                if threshold == AT_FIRST:
                    first = columns(bench, drawn, threshold, seed, FIRST_MAP)
                    found[f"{name}_{threshold}_late_first"].append(first["late"])
                    found[f"{name}_{threshold}_load_first"].append(first["load"])
    count = jobs * bench.repeats
    return Measured(
        values=found,
        notes=[
            "The load is the sum of the shares of map and reduce slots in use (a full cluster is 200%); the average "
            "load is the share of all slots. Spare slots stay free, as in Algorithm 1. A deadline whose minimum pair "
            "alone is above the threshold is drawn again: such a job could never be spawned.",
            f"{count} jobs stand behind each row with a threshold: a row without a late job leaves room for 3/{count} "
            f"of them, {300 / count:.2g} of 100 (95%).",
        ],
    )


def columns(
    bench: Bench,
    jobs: Sequence[DueJob],
    threshold: int,
    seed: int,
    reduce_start: str = ALL_MAPS,
    bound: str = BOUND,
) -> Mapping[str, float]:
    """Simulate the jobs for a load threshold (%), and return the columns of Table 3.

    `late` is the percentage of jobs that ended after their deadlines. `exceeded` is the sum over late jobs of
    the delay in percent of the deadline, per 100 jobs. `load` is the share of busy slots in percent. `reserve`
    is by how many percent of the deadline a job ends before it, on average. See `simulate_jobs` for the other
    arguments.
    """
    bench.simulations += 1
    outcome = simulate_jobs(jobs, threshold / 100, seed, reduce_start, bound)
    return {
        "late": 100 * outcome.late / len(jobs),
        "exceeded": 100 * outcome.exceeded * 100 / len(jobs),
        "load": 100 * outcome.load,
        "reserve": 100 * outcome.reserve,
    }


def draw(figure: Figure, said: Values, measured: Measured) -> None:
    """Draw the late jobs and the mean load for each load threshold, with one row per workload."""
    axes = figure.subplots(2, 2, sharex=True)
    for row, name in enumerate(WORKLOADS):
        for column, (key, label) in enumerate((("late", "late jobs of 100"), ("load", "average load [%]"))):
            ax = axes[row][column]
            thresholds = [str(threshold) for threshold in reversed(THRESHOLDS)]
            keys = [f"{name}_{threshold}_{key}" for threshold in thresholds]
            beside_paper(ax, thresholds, keys, said, measured, label=f"ours, {name}", shade=OKABE[row])
            ax.set(ylabel=label, ylim=(0, None))
            if row:
                ax.set_xlabel("load threshold for arrivals [%]")


EXPERIMENT = Experiment(
    name="table3",
    measure=measure,
    draw=draw,
    takes_s={"sim": 400},
    repeats=4,
    full_repeats=FULL_RUNS,
    size=(7.2, 4.4),
)
