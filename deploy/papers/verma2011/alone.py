"""Section 7.2: jobs that miss their deadlines even if they are alone on the cluster.

The policy ARIA computes a job's slots from one of several bounds of the job's completion time. The experiment
compares the percentages of late jobs with different bounds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from math import inf
from statistics import fmean
from typing import TYPE_CHECKING

from schedbed.deploy.papers import paper_file
from schedbed.deploy.papers.bench import Bench
from schedbed.deploy.papers.experiment import Experiment, Measured, Values
from schedbed.deploy.papers.figures import grouped_bars
from schedbed.deploy.papers.verma2011.arrivals import ALL_MAPS, simulate_jobs
from schedbed.deploy.papers.verma2011.w1_and_w2 import WORKLOADS, DueJob, seed_of, workload
from schedbed.deploy.results.plots import OKABE
from schedbed.deploy.results.stats import mean_interval
from schedbed.scheduler.models.aria_waves import WAVES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

JOBS = 20
"""The number of jobs of each workload in a repeat, the first jobs of Table 3 at the threshold of 95%."""

TRIED = ("avg", "up", WAVES)


def measure(bench: Bench) -> Measured:
    """Simulate random jobs that each run alone on the cluster, and measure the percentage of late jobs.

    The policy ARIA's model has several bounds of a job's completion time. Each job is simulated once per
    bound, with the number of slots that follows from this bound. Reduces start when all maps of the job have
    ended.
    """
    said = paper_file.load("verma2011").experiments["table2"].values
    found: dict[str, list[float]] = defaultdict(list)
    for repeat in range(bench.repeats):
        seed = seed_of(bench.seed, repeat)
        for name in WORKLOADS:
            jobs = workload(name, said, JOBS, 0.95, seed)
            for bound in TRIED:
                bench.simulations += JOBS
                found[f"{name}_{bound}"].append(late_alone(jobs, seed, ALL_MAPS, bound))
    return Measured(values=found)


def late_alone(jobs: Sequence[DueJob], seed: int, reduce_start: str, bound: str) -> float:
    """Return the percentage of these jobs that are late when each runs alone on the whole cluster.

    `reduce_start` says when reduces start (`all_maps` or `first_map`), and `bound` is the bound of the
    completion time from which the policy ARIA computes slots.
    """
    late = sum(simulate_jobs([job], inf, seed, reduce_start, bound).late for job in jobs)
    return 100 * late / len(jobs)


def draw(figure: Figure, said: Values, measured: Measured) -> None:
    """Draw the percentage of late jobs for each bound of the policy ARIA's model.

    There is one bar per workload.
    """
    ax = figure.subplots()
    bars, errors = [], []
    for number, name in enumerate(WORKLOADS):
        late = [measured.samples(f"{name}_{bound}") for bound in TRIED]
        bars.append((name, OKABE[number], [fmean(each) for each in late]))
        errors.append([mean_interval(each) for each in late])
    grouped_bars(ax, ["average bound", "upper bound", "whole waves"], bars, errors)
    ax.set(ylabel="late jobs of 100, each alone", ylim=(0, None))


EXPERIMENT = Experiment(name="alone", measure=measure, draw=draw, takes_s={"sim": 90}, repeats=3)
