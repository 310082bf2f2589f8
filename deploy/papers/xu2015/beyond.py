"""Chapter 6 (future work) with two variants of the policy DTSS, which splits maps.

One variant learns at which point to split maps, and the other keeps copies of fetched blocks.
"""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING

from schedbed.deploy.papers.bench import Bench
from schedbed.deploy.papers.experiment import Experiment, Measured, Values
from schedbed.deploy.papers.figures import PAPER
from schedbed.deploy.papers.xu2015.twenty_jobs import (
    COPIES,
    DELAY,
    LEARNT,
    MOST,
    NAMES,
    QUARTER,
    gains,
    run_twenty_jobs,
)
from schedbed.deploy.results.metrics import locality
from schedbed.deploy.results.plots import OKABE
from schedbed.deploy.results.stats import mean_interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = (QUARTER, MOST, LEARNT, COPIES)


def measure(bench: Bench) -> Measured:
    """Measure the users' mean gains and the share of local input with two variants of the policy DTSS.

    The jobs are those of Figure 12. A gain is the reduction of a user's makespan against delay scheduling, in
    percent.
    """
    runs = run_twenty_jobs(bench)
    mean = {policy: [fmean(gains(finished, policy)) for finished in runs] for policy in SHOWN}
    local = {
        policy: [100 * locality(finished.of(policy).attempts)["bytes"]["node"] for finished in runs]
        for policy in (QUARTER, COPIES)
    }
    found = {
        "learnt": mean[LEARNT],
        "learnt_most": [a - b for a, b in zip(mean[LEARNT], mean[MOST], strict=True)],
        "learnt_quarter": [a - b for a, b in zip(mean[LEARNT], mean[QUARTER], strict=True)],
        "copies": mean[COPIES],
        "copies_quarter": [a - b for a, b in zip(mean[COPIES], mean[QUARTER], strict=True)],
        "copies_local": [a - b for a, b in zip(local[COPIES], local[QUARTER], strict=True)],
    }
    return Measured(
        values=found,
        series={"gains": mean},
        notes=[
            "Each job reads an input of its own, so that a copy helps only the rest of the map that made it."
        ],
    )


def draw(figure: Figure, said: Values, measured: Measured) -> None:
    """Draw the users' mean gain over delay scheduling for each variant of the policy DTSS."""
    ax = figure.subplots()
    for place, policy in enumerate(SHOWN):
        found = measured.series["gains"][policy]
        ax.bar(NAMES[policy], fmean(found), 0.5, color=OKABE[place])
        interval = mean_interval(found)
        if interval is not None:
            ax.vlines(place, *interval, color="black", linewidth=0.8)
    ax.axhline(0, color=PAPER, linewidth=0.8)
    ax.set_ylabel(f"makespan shorter than under {NAMES[DELAY]} [%]")


EXPERIMENT = Experiment(name="beyond", measure=measure, draw=draw, takes_s={"sim": 5}, repeats=6)
