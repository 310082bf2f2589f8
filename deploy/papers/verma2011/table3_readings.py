"""Table 3 again in other readings: slots from the average bound, or fewer reduces in the jobs of W1.

In Table 3 the slots are computed from the upper bound of the completion time.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from schedbed.deploy.papers import paper_file
from schedbed.deploy.papers.bench import Bench
from schedbed.deploy.papers.experiment import Experiment, Measured, Values
from schedbed.deploy.papers.figures import beside_paper
from schedbed.deploy.papers.verma2011.arrivals import ALL_MAPS
from schedbed.deploy.papers.verma2011.table3_late_jobs import FULL_JOBS, JOBS, columns
from schedbed.deploy.papers.verma2011.w1_and_w2 import BOUND, Draw, seed_of, testbed_job, workload

if TYPE_CHECKING:
    from matplotlib.figure import Figure

THRESHOLDS = (95, 90, 85)
FEW_REDUCES = 64
"""The number of reduces of WikiTrends in section 5.2, on a testbed with 64 reduce slots."""


@dataclass(frozen=True, slots=True)
class TableReading:
    """A way to read Table 3: a workload, the bound for the slots, and a generator instead of the usual one."""

    workload: str
    bound: str
    draw: Draw | None = None


READINGS = {
    "W1_avg": TableReading("W1", "avg"),
    "W2_avg": TableReading("W2", "avg"),
    "W1_64": TableReading("W1", BOUND, partial(testbed_job, reduces=FEW_REDUCES)),
}


def measure(bench: Bench, jobs: int | None = None) -> Measured:
    """Measure late jobs and load at the load thresholds at which the paper has no late job.

    One thing differs from `table3` in each reading: the bound, or the number of reduces. Task durations of
    maps and seeds are those of Table 3.
    """
    jobs = jobs or (FULL_JOBS if bench.full else JOBS)
    said = paper_file.load("verma2011").experiments["table2"].values
    found: dict[str, list[float]] = defaultdict(list)
    for repeat in range(bench.repeats):
        seed = seed_of(bench.seed, repeat)
        for key, reading in READINGS.items():
            for threshold in THRESHOLDS:
                drawn = workload(
                    reading.workload, said, jobs, threshold / 100, seed, reading.bound, reading.draw
                )
                figures = columns(bench, drawn, threshold, seed, ALL_MAPS, reading.bound)
                for column in ("late", "load"):
                    found[f"{key}_{threshold}_{column}"].append(figures[column])
    return Measured(values=found)


def draw(figure: Figure, said: Values, measured: Measured) -> None:
    """Draw the mean load for each load threshold next to the paper's, with one plot per reading."""
    for ax, name in zip(figure.subplots(1, len(READINGS), sharey=True), READINGS, strict=True):
        thresholds = [str(each) for each in reversed(THRESHOLDS)]
        keys = [f"{name}_{threshold}_load" for threshold in thresholds]
        beside_paper(ax, thresholds, keys, said, measured, label=name)
        ax.set(xlabel="load threshold for arrivals [%]", ylabel="average load [%]", ylim=(0, None))


EXPERIMENT = Experiment(
    name="readings",
    measure=measure,
    draw=draw,
    takes_s={"sim": 150},
    repeats=4,
    full_repeats=100,
    size=(8.4, 2.6),
)
