"""Figure 6: combinations of four jobs of 3 GB in two queues, under the policies Capacity and CSLA.

Two of the jobs are in each queue.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

from schedbed.deploy.papers.bench import Bench
from schedbed.deploy.papers.experiment import Experiment, Measured, Values
from schedbed.deploy.papers.figures import PAPER, grouped_bars
from schedbed.deploy.papers.lakshmi2019.private_cloud import (
    FOURS,
    QUEUES,
    gains,
    groups_of,
    makespans,
    scenario,
)
from schedbed.deploy.results.plots import OKABE
from schedbed.deploy.results.stats import mean_interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZE_GB = 3
ALIKE = ("wc", "pi", "sort", "grep")  # jobs that the paper calls alike
WAYS: dict[str, tuple[Sequence[str], int]] = {
    "": ((QUEUES[0], QUEUES[0], QUEUES[1], QUEUES[1]), 1),
    "_one": (QUEUES[:1] * 4, 2),
}
"""The queue of each job, and how many times the queue's half a user may hold: two jobs in each queue as in the paper,
and all four in one that may grow to the whole cluster."""


def measure(bench: Bench) -> Measured:
    """Run combinations of four jobs under the policies Capacity and CSLA, and compare the makespans.

    Combinations run one after the other. The four jobs are in two queues as in the paper; simulations also
    run them in a single queue.
    """
    size_gb = 1 if bench.live else SIZE_GB
    values: dict[str, list[float]] = {}
    series: dict[str, dict[tuple[str, ...], list[float]]] = {}
    for way, (queues, factor) in WAYS.items():
        if way and bench.live:
            continue
        groups = groups_of(FOURS, size_gb, queues)
        finished = bench.run(f"fours{way}", scenario(groups, live=bench.live, user_limit_factor=factor))
        mine: dict[tuple[str, ...], list[float]] = dict(
            zip(FOURS, gains(makespans(finished, len(groups))), strict=True)
        )
        unlike = [each for four, each in mine.items() if four != ALIKE]
        values[f"unlike{way}"] = [fmean(repeat) for repeat in zip(*unlike, strict=True)]
        values[f"best{way}"] = max(unlike, key=fmean)
        values[f"alike{way}"] = mine[ALIKE]
        series[way] = mine
    return Measured(values=values, series={"gains": series})


def draw(figure: Figure, said: Values, measured: Measured) -> None:
    """Draw by how many percent the policy CSLA shortens the makespan of each combination of four jobs.

    There is one bar for two queues and one for a single queue.
    """
    ax = figure.subplots()
    found: dict[str, dict[tuple[str, ...], list[float]]] = measured.series["gains"]
    ax.axhline(said["best"].number, color=PAPER, linestyle="--", label="paper: up to 23%")
    ax.axhline(0, color="black", linewidth=0.6)
    labels = {"": "two in each queue", "_one": "all in one queue"}
    bars: list[tuple[str, str, Any]] = []
    errors: list[Any] = []
    for number, (way, mine) in enumerate(found.items()):
        bars.append((labels[way], OKABE[number], [fmean(each) for each in mine.values()]))
        errors.append([mean_interval(each) for each in mine.values()])
    grouped_bars(ax, ["\n".join(four) for four in FOURS], bars, errors)
    ax.set(ylabel="makespan saved [%]")


EXPERIMENT = Experiment(
    name="fours", measure=measure, draw=draw, takes_s={"sim": 90, "process": 400}, repeats=3
)
