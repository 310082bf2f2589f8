"""Job profiles, the durations of a job's phases (section 2.2).

They are the profile of the paper's job WikiTrends, and profiles measured in runs.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from schedbed.deploy.papers import paper_file
from schedbed.deploy.papers.bench import Bench
from schedbed.deploy.papers.experiment import Experiment, Measured, Values
from schedbed.deploy.papers.figures import OURS, PAPER, legend
from schedbed.deploy.papers.verdict import Exact
from schedbed.deploy.results.metrics import RunTables, useful
from schedbed.scheduler.models.aria_bounds import allocate, curve
from schedbed.scheduler.models.job_profile import JobProfile, Profiler, Times

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAPS, REDUCES = 71, 64
"""Numbers of tasks of WikiTrends in section 5.2."""


def wikitrends(said: Values) -> JobProfile:
    """Return a profile of the job WikiTrends from which the policy ARIA computes the slots in Figure 5.

    The slots depend only on the sum of the maximum durations in four phases. Here the maxima of shuffles and
    reduces equal their means, and the longest map takes the rest of the sum.
    """
    map_s, shuffle_s, reduce_s = (said[key].number for key in ("map_avg", "shuffle_avg", "reduce_avg"))
    longest_map_s = said["maxima"].number - 2 * shuffle_s - reduce_s
    return JobProfile(
        map=Times(map_s, longest_map_s),
        first_shuffle=Times(shuffle_s, shuffle_s),
        typical_shuffle=Times(shuffle_s, shuffle_s),
        reduce=Times(reduce_s, reduce_s),
    )


def profile_of(run: RunTables, job: str) -> JobProfile:
    """Return the profile of a job in a finished run, as the profiler of the policy ARIA would measure it.

    A profile contains the durations of the job's phases. `job` is the job's id. Raises ValueError if no map
    ended.
    """
    profiler = Profiler()
    for row in useful(run.attempts[run.attempts["job"] == job]).to_dict("records"):
        if row["kind"] == "map":
            profiler.map_ended(row["assigned"], row["end"], row["length"], row["output_bytes"])
            continue
        marks = [row[mark] for mark in ("sort_end", "shuffle_end") if row[mark] == row[mark]]
        sorted_s = marks[0] if marks else None
        profiler.reduce_ended(
            row["assigned"], sorted_s, row["end"], row["shuffle_bytes"], row["output_bytes"]
        )
    profile = profiler.profile()
    if profile is None:
        raise ValueError(f"{job}: no map of it has ended")
    return profile


# Figure 4: the allocations of map and reduce slots that meet a deadline, and the one with fewest slots.

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
