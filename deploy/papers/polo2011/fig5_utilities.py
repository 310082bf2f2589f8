"""Figure 5: the utilities that the policy RAS computes for the jobs over time, as recorded in its decisions.

The utility compares the slots of a job with the number of slots with which the job meets its goal.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from schedbed.deploy.papers.bench import Bench, FinishedRun
from schedbed.deploy.papers.experiment import Experiment, Measured, Values
from schedbed.deploy.papers.figures import PAPER, legend
from schedbed.deploy.papers.polo2011.nine_jobs import JOBS, experiment1
from schedbed.deploy.papers.polo2011.paper_cluster import size_of
from schedbed.deploy.results.plots import DASHES, OKABE
from schedbed.scheduler.history import read_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SHARE = re.compile(r"utility (?P<utility>-?(?:inf|[\d.]+)):.*cycle at (?P<cycle>[\d.]+) s")


def measure(bench: Bench) -> Measured:
    """Measure the utilities of the jobs over time under the policy RAS, in the runs of Figure 3."""
    finished = bench.run("experiment1", experiment1(size_of(bench)))
    found: dict[str, list[float]] = {"satisfied": [], "rises": [], "spread": []}
    shown = None
    for repeat in range(bench.repeats):
        shown = utilities(finished, finished.policies[-1], repeat)
        found["satisfied"].append(100 * float((shown["utility"] >= 0).mean()))
        by_job = shown.groupby("name")["utility"]
        found["rises"].append(float((by_job.last() > by_job.median()).sum()))
        cycles = shown.groupby("t")["utility"].agg(["min", "max", "count"])
        several = cycles[cycles["count"] > 1]
        found["spread"].append(float((several["max"] - several["min"]).median()))
    return Measured(values=found, series={"utilities": shown})


def utilities(finished: FinishedRun, policy: str, repeat: int) -> pd.DataFrame:
    """Return the utility of each job over time, as the policy RAS recorded it with its decisions.

    RAS decides in cycles. The table has a row for each job and each cycle with a decision about the job. The
    columns are `t` (begin of the cycle in s, divided by the scenario's scale), `name` and `utility`.
    """
    decisions = read_table(finished.folder, "decisions", (policy, repeat))
    told = decisions["reason"].str.extract(_SHARE).astype(float)
    names = finished.of(policy, repeat).jobs.set_index("job")["name"]
    found = pd.DataFrame(
        {
            "t": told["cycle"] / finished.run.scenario["scale"],
            "name": decisions["job"].map(names),
            "utility": told["utility"],
        }
    )
    return found.dropna().drop_duplicates(["t", "name"]).sort_values("t", ignore_index=True)


def lines(ax: Axes, found: pd.DataFrame) -> None:
    """Draw the utility of each job over time as a line. Values of minus infinity are not shown."""
    for number, name in enumerate(JOBS):
        mine = found[found["name"] == name]
        shade, dash = OKABE[number % len(OKABE)], DASHES[number // len(OKABE)]
        ax.plot(
            mine["t"], mine["utility"].replace(-np.inf, np.nan), dash, color=shade, linewidth=0.9, label=name
        )
    ax.axhline(0, color=PAPER, linewidth=0.6)
    ax.set(xlabel="time [s], before scale", ylabel="utility", ylim=(-1.05, 1.05))


def draw(figure: Figure, said: Values, measured: Measured) -> None:
    """Draw the utilities of the jobs over time."""
    ax = figure.subplots()
    lines(ax, measured.series["utilities"])
    legend(ax)


EXPERIMENT = Experiment(name="fig5", measure=measure, draw=draw, takes_s={"sim": 15, "process": 5}, repeats=3)
