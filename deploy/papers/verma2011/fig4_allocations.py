"""Figure 4: the allocations of map and reduce slots that meet a deadline, and the one with fewest slots."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from schedbed.deploy.papers import paper_file
from schedbed.deploy.papers.bench import Bench
from schedbed.deploy.papers.experiment import Experiment, Measured, Values
from schedbed.deploy.papers.figures import OURS, PAPER, legend
from schedbed.deploy.papers.verdict import Exact
from schedbed.deploy.papers.verma2011.wikitrends_profiles import MAPS, REDUCES, wikitrends
from schedbed.scheduler.models.aria_bounds import allocate, curve

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SLO_S = 300.0


def measure(bench: Bench) -> Measured:
    """Compute all pairs of map slots and reduce slots that just meet the deadline, and points A, B and C.

    There is one pair for each number of map slots. A has the most map slots, B the most reduce slots, and C
    the fewest slots in total.
    """
    model = curve(wikitrends(paper_file.load("verma2011").experiments["fig5"].values), MAPS, REDUCES)
    left_s = SLO_S - model.c
    on_curve = [
        (maps, ceil(model.b / (left_s - model.a / maps) - 1e-9))
        for maps in range(1, MAPS + 1)
        if left_s - model.a / maps > model.b / REDUCES - 1e-9
    ]
    best = allocate(model, SLO_S, MAPS, REDUCES)
    most_maps, most_reduces, cheapest = on_curve[-1], on_curve[0], sum(best[:2])
    return Measured(
        values={
            "fewest": Exact(value=cheapest - min(map(sum, on_curve))),
            "a_slots": Exact(value=sum(most_maps) / cheapest),
            "b_slots": Exact(value=sum(most_reduces) / cheapest),
        },
        series={"curve": on_curve, "points": {"A": most_maps, "B": most_reduces, "C": best[:2]}},
    )


def draw(figure: Figure, said: Values, measured: Measured) -> None:
    """Draw the pairs of map slots and reduce slots on the left, and the sums of each pair on the right."""
    left, right = figure.subplots(1, 2)
    points = measured.series["points"]
    maps, reduces = zip(*measured.series["curve"], strict=True)
    left.plot(maps, reduces, color=OURS, label="meets the deadline")
    right.plot(maps, [m + r for m, r in measured.series["curve"]], color=OURS, label="maps + reduces")
    for name, (m, r) in points.items():
        for ax, y in ((left, r), (right, m + r)):
            ax.plot(m, y, "o", color="black", markersize=4)
            ax.annotate(name, (m, y), textcoords="offset points", xytext=(4, 5))
    best = sum(points["C"])
    right.axhline(best, color=PAPER, linestyle=":", linewidth=1)
    left.set(xlabel="map slots", ylabel="reduce slots", xlim=(0, None), ylim=(0, None))
    right.set(xlabel="map slots", ylabel="slots in all", xlim=(0, None), ylim=(0, None))
    for ax in (left, right):
        legend(ax)


EXPERIMENT = Experiment(name="fig4", measure=measure, draw=draw, takes_s={"sim": 1, "process": 1}, repeats=1)
