"""Table 3 again, if jobs ask for the slots that the policy ARIA computes from the upper bound of its model.

In Table 3 the slots are computed from the average bound of the completion time.
"""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING

from schedbed.deploy.papers import paper_file
from schedbed.deploy.papers.bench import Bench
from schedbed.deploy.papers.experiment import Experiment, Measured, Values
from schedbed.deploy.papers.figures import PAPER, grouped_bars
from schedbed.deploy.papers.verma2011.arrivals import ALL_MAPS
from schedbed.deploy.papers.verma2011.table3_late_jobs import (
    AT_FIRST,
    FIRST_MAP,
    FULL_JOBS,
    JOBS,
    columns,
)
from schedbed.deploy.papers.verma2011.w1_and_w2 import WORKLOADS, Draw, seed_of, testbed_job, workload
from schedbed.deploy.results.plots import OKABE
from schedbed.deploy.results.stats import mean_interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

THRESHOLDS = (95, 90, 85)
BOUND = "up"
MOST_REDUCES = 256
"""The number of reduces of each job in a third series of W1: the number of the testbed's reduce slots.

The paper prints the number of reduces for WikiTrends only.
"""

SERIES: dict[str, tuple[str, Draw]] = {
    **{name: (name, generator) for name, generator in WORKLOADS.items()},
    "W1_256": ("W1", partial(testbed_job, reduces=MOST_REDUCES)),
}
"""For each series of rows, the workload and the generator of its jobs."""


def measure(bench: Bench, jobs: int | None = None) -> Measured:
    """Measure late jobs and load of both workloads at the load thresholds at which the paper has no late job.

    Task durations and seeds are those of Table 3.
    """
    jobs = jobs or (FULL_JOBS if bench.full else JOBS)
    said = paper_file.load("verma2011").experiments["table2"].values
    found: dict[str, list[float]] = defaultdict(list)
    for repeat in range(bench.repeats):
        seed = seed_of(bench.seed, repeat)
        for series, (name, generator) in SERIES.items():
            for threshold in THRESHOLDS:
                drawn = workload(name, said, jobs, threshold / 100, seed, BOUND, generator)
                starts = {"": ALL_MAPS}
                if threshold == AT_FIRST and series in WORKLOADS:
                    starts["_first"] = FIRST_MAP
                for end, start in starts.items():
                    figures = columns(bench, drawn, threshold, seed, start, BOUND)
                    for key in ("late", "load"):
                        found[f"{series}_{threshold}_{key}{end}"].append(figures[key])
    return Measured(values=found)


def draw(figure: Figure, said: Values, measured: Measured) -> None:
    """Draw the mean load for each load threshold next to the paper's, with one plot per workload."""
    for ax, name in zip(figure.subplots(1, len(SERIES), sharey=True), SERIES, strict=True):
        keys = [f"{name}_{threshold}_load" for threshold in reversed(THRESHOLDS)]
        ours = [measured.samples(key) for key in keys]
        bars = [
            ("paper", PAPER, [said[key].number for key in keys]),
            (f"upper bound, {name}", OKABE[0], [fmean(each) for each in ours]),
        ]
        grouped_bars(
            ax,
            [str(each) for each in reversed(THRESHOLDS)],
            bars,
            [[], [mean_interval(each) for each in ours]],
        )
        ax.set(xlabel="load threshold for arrivals [%]", ylabel="average load [%]", ylim=(0, None))


EXPERIMENT = Experiment(
    name="upper",
    measure=measure,
    draw=draw,
    takes_s={"sim": 150},
    repeats=4,
    full_repeats=100,
    size=(8.4, 2.6),
)
