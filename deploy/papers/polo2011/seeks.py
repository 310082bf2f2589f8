"""Beyond Figure 3: the same jobs on disks that lose time between streams, as the paper's did and ours do not."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING

from schedbed.deploy.papers.bench import Bench
from schedbed.deploy.papers.experiment import Experiment, Measured, Values
from schedbed.deploy.papers.figures import OURS, legend
from schedbed.deploy.papers.polo2011.fair_slots import fair_spec
from schedbed.deploy.papers.polo2011.nine_jobs import experiment1, longer, ras
from schedbed.deploy.results.plots import OKABE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SEEKS = (0.0, 0.1, 0.2)  # share of its rate that a disk loses to each further stream
SLOTS = (4, 6, 8)


def measure(bench: Bench) -> Measured:
    """RAS against Fair at its best for each share, none as in Figure 3; gains are paired by repeat."""
    fair_s: list[list[list[float]]] = []  # by share, slots, repeat
    ras_s: list[list[float]] = []
    for seek in SEEKS:
        scenario = experiment1(live=False)
        if seek:
            scenario |= {"simulate": {"seek": seek}, "policies": [*map(fair_spec, SLOTS), ras()]}
        played = bench.play(f"seeks{100 * seek:.0f}" if seek else "experiment1", scenario)
        *fairs, ours = (played.figures(policy, "makespan_s") for policy in played.policies)
        fair_s.append(fairs[-len(SLOTS) :])
        ras_s.append(ours)
    best_s = [[min(each) for each in zip(*fairs, strict=True)] for fairs in fair_s]
    gains = [longer(fair, ours) for fair, ours in zip(best_s, ras_s, strict=True)]
    return Measured(
        values={
            **{f"gain{100 * seek:.0f}": gain for seek, gain in zip(SEEKS, gains, strict=True)},
            "best_slots": [float(SLOTS[each.index(min(each))]) for each in zip(*fair_s[-1], strict=True)],
            "overcommitted": longer(fair_s[-1][-1], fair_s[-1][0]),
        },
        series={"fair": fair_s, "ras": ras_s},
        notes=[
            "What a further stream took from the paper's disks is not known. That the order of RAS and Fair turns with "
            "it says that Figure 3 is about what overcommitment costs, and that our RAS is not what keeps it from "
            "holding."
        ],
    )


def draw(figure: Figure, said: Values, measured: Measured) -> None:
    """Makespans over what a further stream costs."""
    ax = figure.subplots()
    fair_s, ras_s = measured.series["fair"], measured.series["ras"]
    shares = [100 * seek for seek in SEEKS]
    for place, slots in enumerate(SLOTS):
        found = [fmean(fairs[place]) for fairs in fair_s]
        ax.plot(
            shares,
            found,
            marker="o",
            color=OURS if slots == SLOTS[0] else OKABE[place],
            label=f"Fair, {slots} slots",
        )
    ax.plot(shares, [fmean(each) for each in ras_s], marker="s", color=OKABE[5], label="RAS")
    ax.set(xlabel="rate that a disk loses to each further stream [%]", ylabel="makespan [s]")
    legend(ax)


EXPERIMENT = Experiment(name="seeks", measure=measure, draw=draw, takes_s={"sim": 400}, repeats=3)
