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
from schedbed.deploy.papers.lakshmi2019.two_jobs import (
    FOURS,
    QUEUES,
    WRITERS,
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
TWO = (QUEUES[0], QUEUES[0], QUEUES[1], QUEUES[1])
WAYS: dict[str, tuple[Sequence[str], int]] = {"": (TWO, 1), "_one": (QUEUES[:1] * 4, 2)}
"""The queue of each job, and how many times the queue's half a user may hold: two jobs in each queue as in the paper,
and all four in one that may grow to the whole cluster."""

Fours = Sequence[tuple[str, ...]]
Gains = dict[tuple[str, ...], list[float]]
"""By the four jobs, in percent, one number per repeat."""


def measure(bench: Bench) -> Measured:
    """Run combinations of four jobs under the policies Capacity and CSLA, and compare the makespans.

    Combinations run one after the other. The four jobs are in two queues as in the paper; simulations also
    run them in a single queue, and in another order.
    """
    values: dict[str, list[float]] = {}
    series: dict[str, Gains] = {}
    for way in WAYS:
        if way and bench.live:
            continue
        mine = four_gains(bench, way, FOURS)
        unlike = [each for four, each in mine.items() if four != ALIKE]
        values[f"unlike{way}"] = [fmean(repeat) for repeat in zip(*unlike, strict=True)]
        values[f"best{way}"] = max(unlike, key=fmean)
        values[f"alike{way}"] = mine[ALIKE]
        series[way] = mine
        if not bench.live:
            turns = four_gains(bench, way, in_turns(FOURS), "_turns")
            values[f"best{way}_turns"] = max(turns.values(), key=fmean)
    return Measured(values=values, series={"gains": series})


def in_turns(fours: Fours) -> Fours:
    """Return the combinations of two CPU-heavy and two IO-heavy jobs, with the two kinds of jobs in turns.

    A CPU-heavy job is first. If two jobs are in each queue, each queue then has one of both kinds.
    """
    found: list[tuple[str, ...]] = []
    for four in fours:
        heavy_io = [app for app in four if app in WRITERS]
        heavy_cpu = [app for app in four if app not in WRITERS]
        if len(heavy_io) == len(heavy_cpu):
            found.append(tuple(app for pair in zip(heavy_cpu, heavy_io, strict=True) for app in pair))
    return found


def four_gains(bench: Bench, way: str, fours: Fours, order: str = "") -> Gains:
    """Return by how many percent the policy CSLA shortens the makespan of each combination of four jobs.

    `way` is a key of `WAYS`. `order` is appended to the name of the run's folder.
    """
    queues, factor = WAYS[way]
    groups = groups_of(fours, 1 if bench.live else SIZE_GB, queues)
    plan = scenario(groups, live=bench.live, user_limit_factor=factor)
    finished = bench.run(f"fours{way}{order}", plan)
    return dict(zip(fours, gains(makespans(finished, len(groups))), strict=True))


def draw(figure: Figure, said: Values, measured: Measured) -> None:
    """Draw by how many percent the policy CSLA shortens the makespan of each combination of four jobs.

    There is one bar for two queues and one for a single queue.
    """
    ax = figure.subplots()
    found: dict[str, Gains] = measured.series["gains"]
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
    name="fours", measure=measure, draw=draw, takes_s={"sim": 110, "process": 400}, repeats=3
)
