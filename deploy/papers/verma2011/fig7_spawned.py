"""Figure 7: the running maps and reduces over time while jobs of the workload W2 (Yahoo!) arrive.

A job arrives when the cluster's load with this job is below a threshold. The load is the sum of the shares of
map and reduce slots in use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from schedbed.deploy.papers import paper_file
from schedbed.deploy.papers.bench import Bench
from schedbed.deploy.papers.experiment import Experiment, Measured, Values
from schedbed.deploy.papers.figures import legend
from schedbed.deploy.papers.verma2011.arrivals import Outcome, simulate_jobs
from schedbed.deploy.papers.verma2011.w1_and_w2 import MAP_SLOTS, REDUCE_SLOTS, workload
from schedbed.deploy.results.plots import OKABE
from schedbed.tasks.chance import chance

if TYPE_CHECKING:
    from matplotlib.figure import Figure

THRESHOLDS = (95, 105)
JOBS, FULL_JOBS = 40, 100
POINTS = 600  # points in time in the figure


def measure(bench: Bench, jobs: int | None = None) -> Measured:
    """Measure the mean and the largest share of busy slots for each load threshold.

    A job is submitted when the load stays below the threshold. Each repeat draws other jobs, `jobs` in
    number. The figure shows the first repeat.
    """
    jobs = jobs or (FULL_JOBS if bench.full else JOBS)
    said = paper_file.load("verma2011").experiments["table2"].values
    found: dict[str, list[float]] = {}
    series: dict[int, list[np.ndarray]] = {}
    for threshold in THRESHOLDS:
        peaks, averages = [], []
        for repeat in range(bench.repeats):
            seed = chance(bench.seed, "fig7", repeat).getrandbits(62)
            outcome = simulate_jobs(workload("W2", said, jobs, threshold / 100, seed), threshold / 100, seed)
            bench.simulations += 1
            times_s, shares = running(outcome)
            series.setdefault(threshold, [times_s, *shares])
            peaks.append(100 * float(shares.max()))
            averages.append(100 * outcome.load)
        found[f"peak_{threshold}"], found[f"average_{threshold}"] = peaks, averages
        found[f"below_{threshold}"] = [low / high for low, high in zip(averages, peaks, strict=True)]
    return Measured(values=found, series={"load": series})


def running(outcome: Outcome) -> tuple[np.ndarray, np.ndarray]:
    """Return equally spaced times in s, and the shares of map slots and reduce slots in use at these times.

    The times are between the first submission and the last end of a job.
    """
    times_s = np.linspace(min(job[0] for job in outcome.jobs), max(job[1] for job in outcome.jobs), POINTS)
    shares = []
    for kind, slots in (("map", MAP_SLOTS), ("reduce", REDUCE_SLOTS)):
        began, ended = (np.sort(each) for each in np.array(outcome.attempts[kind]).T)
        now = np.searchsorted(began, times_s, side="right") - np.searchsorted(ended, times_s, side="right")
        shares.append(now / slots)
    return times_s, np.array(shares)


def draw(figure: Figure, said: Values, measured: Measured) -> None:
    """Draw the shares of map slots and reduce slots in use over time, with one row per load threshold."""
    axes = figure.subplots(len(THRESHOLDS), 1, sharex=True)
    for ax, threshold in zip(axes, THRESHOLDS, strict=True):
        times_s, maps, reduces = measured.series["load"][threshold]
        ax.plot(
            times_s / 60,
            100 * maps,
            color=OKABE[0],
            linewidth=0.8,
            label=f"map slots, threshold {threshold}%",
        )
        ax.plot(
            times_s / 60, 100 * reduces, color=OKABE[1], linewidth=0.8, linestyle="--", label="reduce slots"
        )
        ax.set(ylabel="in use [%]", ylim=(0, 103), xlim=(0, None))
        legend(ax)
    axes[-1].set_xlabel("time [min]")


EXPERIMENT = Experiment(
    name="fig7", measure=measure, draw=draw, takes_s={"sim": 60}, repeats=3, size=(6.4, 4.0)
)
