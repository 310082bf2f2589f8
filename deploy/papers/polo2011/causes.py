"""The causes of the ends of J1, J4, J8 and J9: RAS with shorter reduces of sort, and with Table 1's sizes as
printed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedbed.deploy.papers.bench import Bench
from schedbed.deploy.papers.experiment import Experiment, Measured, Values
from schedbed.deploy.papers.figures import OURS, PAPER, grouped_bars
from schedbed.deploy.papers.polo2011.fig3_makespans import completions
from schedbed.deploy.papers.polo2011.nine_jobs import JOBS, jobs, ras, said
from schedbed.deploy.papers.polo2011.paper_cluster import QUARTER, scenario

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHORTER = 0.5  # of what the jobs' lengths alone ask
PRINTED = ("J3", "J4")


def measure(bench: Bench) -> Measured:
    """Run Experiment 2 with shorter reduce phases of sort, and Experiment 1 with the printed sizes."""
    short = bench.play("short", scenario(jobs(QUARTER, tight=True, sort_reduce=SHORTER), [ras()], QUARTER))
    printed = bench.play("printed", scenario(jobs(QUARTER, printed=True), [ras()], QUARTER))
    ends, as_printed = (completions(each.each(each.policies[0]), 1.0) for each in (short, printed))
    due = dict(zip(JOBS, said()["goals"].numbers, strict=True))
    met = [
        float(sum(ends[name][repeat] <= due[name] for name in JOBS)) for repeat in range(len(ends[JOBS[0]]))
    ]
    shorter = {f"{name}_short": ends[name] for name in JOBS}
    return Measured(
        values={"met_short": met, **shorter, **{f"{name}_printed": as_printed[name] for name in PRINTED}}
    )


def draw(figure: Figure, said: Values, measured: Measured) -> None:
    """Draw the ends of Experiment 2 with shorter reduces beside the paper's."""
    keys = [f"{name}_short" for name in JOBS]
    printed = [said[key].number for key in keys]
    ours = [sum(measured.samples(key)) / len(measured.samples(key)) for key in keys]
    ax = figure.subplots()
    grouped_bars(ax, list(JOBS), [("paper", PAPER, printed), ("ours", OURS, ours)])
    ax.set_ylabel("end in Experiment 2 [s]")


EXPERIMENT = Experiment(name="causes", measure=measure, draw=draw, takes_s={"sim": 40}, repeats=3)
