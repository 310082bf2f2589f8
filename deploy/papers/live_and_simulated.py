"""Runs a paper's main result live, simulates the same scenario, and compares the two results.

Also the framework of both, whose times the scenario's `scale` does not change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from statistics import fmean
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from schedbed.deploy.papers.bench import Bench, FinishedRun
from schedbed.deploy.papers.experiment import Experiment, Measured, Values
from schedbed.deploy.papers.figures import OURS, PAPER, single_bars
from schedbed.deploy.papers.verdict import Exact
from schedbed.deploy.results.plots import OKABE
from schedbed.deploy.results.stats import mean_interval
from schedbed.scheduler.framework import HADOOP1

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LIVE_REPEATS = 5
SIMULATED = "simulated"

Plan = Mapping[str, Any] | Callable[[int], Mapping[str, Any]]
"""A scenario, or a function that returns it for the seed of a repeat."""

Measure = Callable[[FinishedRun], Sequence[float]]
"""A function that returns the main result of a run, one number per repeat."""


def hadoop1(scale: float, times: Mapping[str, float] = MappingProxyType({}), **rules: Any) -> dict[str, Any]:
    """Return the key `framework` for Hadoop 1 with some changed times in s, all multiplied by `scale`, and rules."""
    usual = {
        key.removesuffix("_s"): each for key, each in asdict(HADOOP1).items() if key.endswith("_s") and each
    }
    return {"hadoop1": {key: f"{scale * seconds:g}s" for key, seconds in {**usual, **times}.items()} | rules}


def compare(bench: Bench, name: str, plan: Plan, value: Measure) -> Measured:
    """Run `plan` live and simulated, and check that the paper's main `value` has the same sign.

    Both have the same seed and number of repeats.
    """
    live = list(value(bench.run(name, plan)))
    beside = simulating(bench)
    simulated = list(value(beside.run(name, plan)))
    agree = (fmean(live) > 0) == (fmean(simulated) > 0)
    unclear = [
        where
        for where, each in (("live", live), (SIMULATED, simulated))
        if (interval := mean_interval(each)) is None or interval[0] <= 0 <= interval[1]
    ]
    notes = [f"The sign is not certain {' and '.join(unclear)}: the interval reaches 0."] if unclear else []
    values = {"live": live, SIMULATED: simulated, "agree": Exact(value=float(agree))}
    return Measured(values=values, notes=notes)


def simulating(bench: Bench) -> Bench:
    """Return a bench that simulates what `bench` runs live."""
    return Bench(bench.folder / SIMULATED, machines="sim", repeats=bench.repeats, seed=bench.seed)


def live_experiment(
    plan: Callable[[Bench], Plan],
    value: Measure,
    takes_s: float,
    note: Callable[[Bench], str] | None = None,
) -> Experiment:
    """Return an experiment that measures a paper's main result live and is part of `reproduce --quick`.

    `plan` is the function that returns the live scenario, and `value` the one that computes the result from a
    run. `takes_s` is the approximate duration in s, and `note` returns what a reader must know of the runs.
    """

    def measure(bench: Bench) -> Measured:
        found = compare(bench, "headline", plan(bench), value)
        return found if note is None else replace(found, notes=[*found.notes, note(bench)])

    return Experiment(
        name="live",
        measure=measure,
        draw=draw,
        takes_s={"process": takes_s},
        repeats=LIVE_REPEATS,
        quick=True,
        size=(4.5, 2.4),
    )


def draw(figure: Figure, said: Values, measured: Measured) -> None:
    """Draw the main result in live runs and in simulations as two bars with 95% intervals."""
    ax = figure.subplots()
    single_bars(ax, {key: measured.samples(key) for key in ("live", SIMULATED)}, (OKABE[1], OURS))
    ax.axhline(0, color=PAPER, linewidth=0.8)
    ax.set_ylabel(said["live"].unit or "value")
