"""Figure 3: the makespan under Fair with 1 to 8 map slots a node, and under RAS."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING

from schedbed.deploy.papers.bench import Bench
from schedbed.deploy.papers.experiment import Experiment, Measured, Values
from schedbed.deploy.papers.figures import OURS, PAPER, legend
from schedbed.deploy.papers.polo2011.nine_jobs import experiment1, longer, slots
from schedbed.deploy.results.plots import OKABE
from schedbed.deploy.results.stats import mean_interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

USUAL_SLOTS = 4  # the paper's best


def measure(bench: Bench) -> Measured:
    """All of them on the same jobs; gains are paired by repeat."""
    played = bench.play("experiment1", experiment1(live=bench.live))
    *fairs, ras = played.policies
    tried, scale = slots(live=bench.live), played.run.scenario["scale"]
    fair_s = [_makespans(played.figures(policy, "makespan_s"), scale) for policy in fairs]
    ras_s = _makespans(played.figures(ras, "makespan_s"), scale)
    repeats = list(zip(*fair_s, strict=True))
    usual_s = fair_s[tried.index(USUAL_SLOTS)]
    return Measured(
        values={
            "ras_makespan": ras_s,
            "fair_makespan": [min(each) for each in repeats],
            "best_slots": [float(tried[each.index(min(each))]) for each in repeats],
            "gain_four": longer(usual_s, ras_s),
            "gain_least": longer([min(each) for each in repeats], ras_s),
            "gain_most": longer([max(each) for each in repeats], ras_s),
            "overcommitted": longer(fair_s[-1], usual_s),
            "concurrency": played.figures(ras, "concurrency"),
        },
        series={"slots": tried, "fair": fair_s, "ras": ras_s},
        notes=[
            "An emulated node loses nothing to too many tasks: it neither swaps nor seeks. So Fair does not get slower "
            "with more slots, as on the paper's nodes with 2 GB of memory and one disk; and RAS, which keeps nodes "
            "below Table 2's percentages, pays for that with less use (fig4) and gains nothing by it. On disks that "
            "seek it does: see seeks."
        ],
    )


def _makespans(took_s: list[float], scale: float) -> list[float]:
    return [each / scale for each in took_s]


def draw(figure: Figure, said: Values, measured: Measured) -> None:
    """Fair by its slots, RAS and the paper's two numbers as lines."""
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
    name="fig3", measure=measure, draw=draw, takes_s={"sim": 400, "process": 1200}, repeats=3
)
