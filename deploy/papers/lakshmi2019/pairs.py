"""Figures 2 to 5: pairs of jobs of 1 to 4 GB under the policies Capacity and CSLA."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

from schedbed.deploy.papers.bench import Bench
from schedbed.deploy.papers.experiment import Experiment, Measured, Values
from schedbed.deploy.papers.figures import PAPER, grouped_bars
from schedbed.deploy.papers.lakshmi2019.two_jobs import (
    APPS,
    PAIRS,
    Gains,
    Pair,
    PairRun,
    described,
    pair_gains,
    run_alone,
    run_pairs,
    shares,
    split_gains,
    tags_of,
    unlike,
    untagged,
)
from schedbed.deploy.results.plots import OKABE
from schedbed.deploy.results.stats import mean_interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZES_GB = (1, 2, 3, 4)
HEADLINE_GB = 3
LIVE_PAIRS: tuple[Pair, ...] = (("wc", "sort"), ("wc", "rtw"), ("pi", "sort"), ("rtw", "sort"))


def measure(bench: Bench) -> Measured:
    """Run all pairs of jobs of each size under the policies Capacity and CSLA, and compare the makespans.

    Pairs run one after the other, with both jobs in one queue. A live run has only four pairs of one size.
    """
    pairs = LIVE_PAIRS if bench.live else PAIRS
    alone = run_alone(bench)
    tags = tags_of(alone)
    values: dict[str, list[float]] = {}
    best: list[Sequence[float]] = []
    series: dict[int, Gains] = {}
    for size_gb in SIZES_GB[:1] if bench.live else SIZES_GB:
        way = PairRun(name=f"pairs-{size_gb}GB", pairs=pairs, size_gb=size_gb)
        found = pair_gains(bench, way)
        values[f"unlike_{size_gb}"], values[f"alike_{size_gb}"], more = split_gains(found, tags)
        values[f"untagged_{size_gb}"] = untagged(run_pairs(bench, way))
        if size_gb == HEADLINE_GB:
            values["unlike_minus_alike"] = more
        best += [gain for pair, gain in found.items() if unlike(tags, pair)]
        series[size_gb] = found
    # This is the pair with the largest mean gain, since the largest gain of each repeat would be noise.
    values["best"] = list(max(best, key=fmean))
    tagged = {f"tag_{app}": [float(tags[app])] * bench.repeats for app in APPS}
    note = f"Maps of each job alone, one for each node: {described(shares(alone))}. Pairs of one tag are like pairs."
    return Measured(values=values | tagged, series={"gains": series}, notes=[note])


def draw(figure: Figure, said: Values, measured: Measured) -> None:
    """Draw by how many percent the policy CSLA shortens the makespan of each pair of jobs.

    There is one bar per size of the jobs.
    """
    ax = figure.subplots()
    found: dict[int, Gains] = measured.series["gains"]
    pairs = list(next(iter(found.values())))
    bars: list[tuple[str, str, Any]] = []
    errors: list[Any] = []
    for number, (size_gb, mine) in enumerate(found.items()):
        bars.append((f"{size_gb} GB", OKABE[number], [fmean(mine[pair]) for pair in pairs]))
        errors.append([mean_interval(mine[pair]) for pair in pairs])
    ax.axhspan(12, 23, color=PAPER, alpha=0.3, linewidth=0, label="paper: 12 to 23%")
    ax.axhline(0, color="black", linewidth=0.6)
    grouped_bars(ax, ["\n".join(pair) for pair in pairs], bars, errors)
    ax.set(ylabel="makespan saved [%]")


EXPERIMENT = Experiment(
    name="pairs",
    measure=measure,
    draw=draw,
    takes_s={"sim": 110, "process": 500},
    repeats=3,
    size=(7.2, 3.4),
)
