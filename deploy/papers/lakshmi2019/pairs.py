"""Figures 2 to 5: pairs of jobs of 1 to 4 GB, Capacity against CSLA."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

from schedbed.deploy.papers.bench import Bench
from schedbed.deploy.papers.experiment import Experiment, Measured, Values
from schedbed.deploy.papers.figures import PAPER, grouped_bars
from schedbed.deploy.papers.lakshmi2019.private_cloud import (
    APART_S_PER_GB,
    NAMES,
    PAIRS,
    QUEUES,
    gains,
    job,
    makespans,
    scenario,
    shares,
)
from schedbed.deploy.results.plots import OKABE
from schedbed.deploy.results.stats import mean_interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZES_GB = (1, 2, 3, 4)
ALIKE = ("rtw", "sort")
LIVE_PAIRS = (("wc", "sort"), ("wc", "rtw"), ("pi", "sort"), ALIKE)
SHARED = (QUEUES[0], QUEUES[0])
WAYS = {"": (QUEUES, 1), "_grown": (SHARED, 2)}
"""The queues of the two jobs, and how much of its queue's half a user may hold: a queue each as the paper sets them
up; both in one that may grow to the whole cluster. One queue with Hadoop's default limit, half the cluster, is no
test of CSLA: Capacity packs the jobs on two of four nodes, and what spreads them gains 10 to 22%, also for pairs of
equal jobs."""
TITLES = ("a queue for each job", "one queue, the whole cluster")


def measure(bench: Bench) -> Measured:
    """All pairs of a size one after the other in a run, each way; live a few pairs of one size."""
    pairs = LIVE_PAIRS if bench.live else PAIRS
    sizes = SIZES_GB[:1] if bench.live else SIZES_GB
    found: dict[str, list[float]] = {}
    series: dict[str, Any] = {}
    tags = ""
    for way, (queues, factor) in WAYS.items():
        best: list[list[float]] = []
        for size_gb in sizes:
            groups = _groups(pairs, size_gb, queues)
            plan = scenario(groups, live=bench.live, user_limit_factor=factor)
            played = bench.play(f"pairs-{size_gb}GB{way}", plan)
            mine = dict(zip(pairs, gains(makespans(played, len(groups))), strict=True))
            unlike = [each for pair, each in mine.items() if pair != ALIKE]
            found[f"unlike_{size_gb}{way}"] = [fmean(repeat) for repeat in zip(*unlike, strict=True)]
            found[f"alike_{size_gb}{way}"] = mine[ALIKE]
            best += unlike
            series[f"{size_gb}{way}"] = mine
            tags = tags or _tags(shares(played))
        found[f"best{way}"] = [max(repeat) for repeat in zip(*best, strict=True)]
    return Measured(values=found, series=series, notes=[tags])


def _groups(
    pairs: Sequence[tuple[str, str]], size_gb: int, queues: tuple[str, str]
) -> list[list[dict[str, Any]]]:
    return [
        [
            job(app, size_gb, queue, APART_S_PER_GB * size_gb * number)
            for app, queue in zip(pair, queues, strict=True)
        ]
        for number, pair in enumerate(pairs)
    ]


def _tags(measured: Mapping[str, tuple[float, float]]) -> str:
    """What the jobs are here; the paper takes Pi and Grep for IO-heavy in one place and not in another."""
    each = ", ".join(
        f"{NAMES[app]} {100 * cpu:.0f}% of a core and {rate:.1f} MB/s"
        for app, (cpu, rate) in measured.items()
    )
    return f"Maps as measured beside each other under Capacity: {each}. Which jobs make a like pair is as in the paper."


def draw(figure: Figure, said: Values, measured: Measured) -> None:
    """The gain of each pair, a row a way; a bar a size."""
    axes: Sequence[Any] = figure.subplots(len(WAYS), 1, sharex=True)
    for ax, way, title in zip(axes, WAYS, TITLES, strict=True):
        sizes = [size_gb for size_gb in SIZES_GB if f"{size_gb}{way}" in measured.series]
        pairs = list(measured.series[f"{sizes[0]}{way}"])
        bars, errors = [], []
        for number, size_gb in enumerate(sizes):
            mine = measured.series[f"{size_gb}{way}"]
            bars.append((f"{size_gb} GB", OKABE[number], [fmean(mine[pair]) for pair in pairs]))
            errors.append([mean_interval(mine[pair]) for pair in pairs])
        ax.axhspan(12, 23, color=PAPER, alpha=0.3, linewidth=0, label="paper: 12 to 23%")
        ax.axhline(0, color="black", linewidth=0.6)
        grouped_bars(ax, ["\n".join(pair) for pair in pairs], bars, errors)
        ax.set_title(title, loc="right", fontsize=8)
        ax.set(ylabel="makespan saved [%]")


EXPERIMENT = Experiment(
    name="pairs",
    measure=measure,
    draw=draw,
    takes_s={"sim": 400, "process": 600},
    repeats=3,
    size=(7.2, 4.2),
)
