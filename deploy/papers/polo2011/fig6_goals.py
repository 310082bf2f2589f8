"""Figure 6 and Table 1: the nine jobs under the policy RAS with tight completion goals (Experiment 2)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from schedbed.deploy.papers.bench import Bench
from schedbed.deploy.papers.experiment import Experiment, Measured, Values
from schedbed.deploy.papers.figures import legend
from schedbed.deploy.papers.polo2011.fig3_makespans import completions
from schedbed.deploy.papers.polo2011.fig5_utilities import lines, utilities
from schedbed.deploy.papers.polo2011.nine_jobs import JOBS, experiment1, experiment2, goals, said
from schedbed.deploy.papers.polo2011.paper_cluster import size_of
from schedbed.deploy.results.metrics import RunTables
from schedbed.deploy.results.plots import DASHES, OKABE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

POINTS = 200  # points in time in the figure


def measure(bench: Bench) -> Measured:
    """Measure the completion times and utilities of jobs with goals, and compare with jobs without goals."""
    size = size_of(bench)
    relaxed = bench.run("experiment1", experiment1(size))
    tight = bench.run("experiment2", experiment2(size))
    scale, ras = tight.run.scenario["scale"], tight.policies[0]
    mine, before = (completions(finished.each(finished.policies[-1]), scale) for finished in (tight, relaxed))
    fair_s = [
        [each / scale for each in relaxed.figures(policy, "makespan_s")] for policy in relaxed.policies[:-1]
    ]
    found: dict[str, list[float]] = defaultdict(list)
    for repeat, fairs_s in enumerate(zip(*fair_s, strict=True)):
        ends, relaxed_ends = ({name: of[name][repeat] for name in JOBS} for of in (mine, before))
        for key, value in (compared(ends, relaxed_ends) | {"gain": _gain(ends, fairs_s)}).items():
            found[key].append(value)
    last = tight.of(ras, bench.repeats - 1)
    return Measured(
        values=found,
        series={"utilities": utilities(tight, ras, bench.repeats - 1), "maps": _maps(last, scale)},
    )


def compared(mine: Mapping[str, float], before: Mapping[str, float]) -> dict[str, float]:
    """Return the values of Figure 6, such as the number of goals met, by key in paper.yaml.

    `mine` has the completion times in s of the jobs with goals, and `before` those of the jobs without goals.
    """
    due = dict(zip(JOBS, said()["goals"].numbers, strict=True))
    since = goals(tight=True)
    return {
        **mine,
        "met": float(sum(mine[name] <= due[name] for name in JOBS)),
        "met_relaxed": float(sum(before[name] <= due[name] for name in JOBS)),
        "worst": 100 * max((mine[name] - due[name]) / since[name] for name in JOBS),
        "J1_earlier": before["J1"] - mine["J1"],
        "J8_earlier": before["J8"] - mine["J8"],
        "J7_later": mine["J7"] - before["J7"],
    }


def _gain(mine: Mapping[str, float], fair_s: Sequence[float]) -> float:
    return 100 * (min(fair_s) / max(mine.values()) - 1)


def _maps(run: RunTables, scale: float) -> Mapping[str, np.ndarray]:
    """Return the number of running maps of each job over time.

    The key `t` has the times in s, divided by `scale`, the factor by which live runs are shortened. The other
    keys are job names.
    """
    times_s = np.linspace(0.0, run.jobs["finish"].max(), POINTS)
    found = {"t": times_s / scale}
    for job, name in zip(run.jobs["job"], run.jobs["name"], strict=True):
        maps = run.attempts[(run.attempts["job"] == job) & (run.attempts["kind"] == "map")]
        began, ended = np.sort(maps["assigned"]), np.sort(maps["end"])
        found[name] = np.searchsorted(began, times_s, "right") - np.searchsorted(ended, times_s, "right")
    return found


def draw(figure: Figure, said: Values, measured: Measured) -> None:
    """Draw the running maps and the utility of each job over time."""
    upper, lower = figure.subplots(2, 1, sharex=True)
    maps = measured.series["maps"]
    for number, name in enumerate(JOBS):
        shade, dash = OKABE[number % len(OKABE)], DASHES[number // len(OKABE)]
        upper.plot(maps["t"], maps[name], dash, color=shade, linewidth=0.9, label=name)
    upper.set_ylabel("running maps")
    legend(upper)
    lines(lower, measured.series["utilities"])


EXPERIMENT = Experiment(
    name="fig6",
    measure=measure,
    draw=draw,
    takes_s={"sim": 25, "process": 400},
    repeats=3,
    full_repeats=1,
    size=(6.4, 4.6),
)
