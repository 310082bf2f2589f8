"""Figure 6: four jobs of 3 GB, two in each queue, Capacity against CSLA."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING

from schedbed.deploy.papers.bench import Bench
from schedbed.deploy.papers.experiment import Experiment, Measured, Values
from schedbed.deploy.papers.figures import OURS, PAPER, grouped_bars
from schedbed.deploy.papers.lakshmi2019.private_cloud import (
    APART_S_PER_GB,
    FOURS,
    QUEUES,
    gains,
    job,
    makespans,
    scenario,
)
from schedbed.deploy.results.stats import mean_interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZE_GB = 3
ALIKE = ("wc", "pi", "sort", "grep")  # as the paper says


def measure(bench: Bench) -> Measured:
    """All combinations of four jobs one after the other in one run; the first two of each share a queue."""
    size_gb = 1 if bench.live else SIZE_GB
    groups = [
        [
            job(app, size_gb, QUEUES[place // 2], 2 * APART_S_PER_GB * size_gb * number)
            for place, app in enumerate(four)
        ]
        for number, four in enumerate(FOURS)
    ]
    played = bench.play("fours", scenario(groups, live=bench.live))
    mine = dict(zip(FOURS, gains(makespans(played, len(groups))), strict=True))
    unlike = [each for four, each in mine.items() if four != ALIKE]
    return Measured(
        values={
            "unlike": [fmean(repeat) for repeat in zip(*unlike, strict=True)],
            "best": [max(repeat) for repeat in zip(*unlike, strict=True)],
            "alike": mine[ALIKE],
        },
        series={"gains": mine},
    )


def draw(figure: Figure, said: Values, measured: Measured) -> None:
    """The gain of each four."""
    ax = figure.subplots()
    mine = measured.series["gains"]
    ax.axhline(said["best"].number, color=PAPER, linestyle="--", label="paper: up to 23%")
    ax.axhline(0, color="black", linewidth=0.6)
    bars = [("ours", OURS, [fmean(each) for each in mine.values()])]
    grouped_bars(ax, ["\n".join(four) for four in mine], bars, [[mean_interval(e) for e in mine.values()]])
    ax.set(ylabel="makespan saved [%]")


EXPERIMENT = Experiment(
    name="fours", measure=measure, draw=draw, takes_s={"sim": 70, "process": 400}, repeats=3
)
