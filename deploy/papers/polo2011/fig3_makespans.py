"""Figure 3: the makespans under the policies Fair, with 1 to 8 map slots per node, and RAS."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from schedbed.deploy.papers.bench import Bench
from schedbed.deploy.papers.experiment import Experiment, Measured, Values
from schedbed.deploy.papers.figures import OURS, PAPER, legend
from schedbed.deploy.papers.polo2011.nine_jobs import experiment1, longer, slots
from schedbed.deploy.papers.polo2011.paper_cluster import size_of
from schedbed.deploy.results.metrics import RunTables
from schedbed.deploy.results.plots import OKABE
from schedbed.deploy.results.stats import mean_interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

USUAL_SLOTS = 4  # the best number in the paper


def measure(bench: Bench) -> Measured:
    """Run the policies Fair and RAS on the same jobs, and compare their makespans in each repeat."""
    size = size_of(bench)
    finished = bench.run("experiment1", experiment1(size))
    *fairs, ras = finished.policies
    tried, scale = slots(size), finished.run.scenario["scale"]
    fair_s = [_makespans(finished.figures(policy, "makespan_s"), scale) for policy in fairs]
    ras_s = _makespans(finished.figures(ras, "makespan_s"), scale)
    repeats = list(zip(*fair_s, strict=True))
    usual_s = fair_s[tried.index(USUAL_SLOTS)]
    return Measured(
        values={
            "ras_makespan": ras_s,
            "fair_makespan": [min(each) for each in repeats],
            "best_slots": [float(tried[each.index(min(each))]) for each in repeats],
            "gain_four": longer(usual_s, ras_s),
            "gain_least": longer([min(each) for each in repeats], ras_s),
            "ahead": longer([min(each) for each in repeats], ras_s),
            "gain_most": longer([max(each) for each in repeats], ras_s),
            "overcommitted": longer(fair_s[-1], usual_s),
            "concurrency": finished.figures(ras, "concurrency"),
            **completions(finished.each(ras), scale),
        },
        series={"slots": tried, "fair": fair_s, "ras": ras_s},
    )


def completions(runs: Sequence[RunTables], scale: float) -> dict[str, list[float]]:
    """Return when each job ended, in s since the first submission, by job name.

    Times are divided by `scale`, the factor by which live runs are shortened. Each job has one number per
    run.
    """
    found: dict[str, list[float]] = defaultdict(list)
    for run in runs:
        ends = (run.jobs["finish"] - run.jobs["submit"].min()) / scale
        for name, end_s in zip(run.jobs["name"], ends, strict=True):
            found[name].append(float(end_s))
    return found


def _makespans(took_s: list[float], scale: float) -> list[float]:
    return [each / scale for each in took_s]


def draw(figure: Figure, said: Values, measured: Measured) -> None:
    """Draw the makespan of the policy Fair for each number of map slots, with lines for RAS and the paper."""
    ax = figure.subplots()
    tried, fair_s, ras_s = (measured.series[key] for key in ("slots", "fair", "ras"))
    ax.bar([str(each) for each in tried], [fmean(each) for each in fair_s], 0.6, color=OURS, label="Fair")
    for place, each in enumerate(fair_s):
        interval = mean_interval(each)
        if interval is not None:
            ax.vlines(place, *interval, color="black", linewidth=0.8)
    ax.axhline(fmean(ras_s), color=OKABE[5], label="RAS")
    for key, label, dash in (("ras_makespan", "RAS, paper", "--"), ("fair_makespan", "Fair 4, paper", ":")):
        ax.axhline(said[key].number, color=PAPER, linestyle=dash, label=label)
    ax.set(xlabel="map slots a node under Fair", ylabel="makespan [s], before scale")
    legend(ax)


EXPERIMENT = Experiment(
    name="fig3", measure=measure, draw=draw, takes_s={"sim": 170, "process": 1200}, full_repeats=1, repeats=3
)
