"""Figure 12: each user's makespan when all input is on one node of five."""

from __future__ import annotations

from statistics import fmean

from schedbed.deploy.papers.bench import Bench
from schedbed.deploy.papers.experiment import Experiment, Measured
from schedbed.deploy.papers.xu2015.bars import draw
from schedbed.deploy.papers.xu2015.twenty_jobs import DELAY, MOST, QUARTER, gains, makespans, play

SHOWN = (DELAY, QUARTER, MOST)


def measure(bench: Bench) -> Measured:
    """Gains over delay are paired by repeat; each repeat's least and most are over its users."""
    names = ("quarter_mean", "quarter_least", "quarter_most", "most_mean", "most_most", "less_is_better")
    found: dict[str, list[float]] = {name: [] for name in names}
    runs = play(bench, skewed=True)
    for played in runs:
        quarter, most = gains(played, QUARTER), gains(played, MOST)
        found["quarter_mean"].append(fmean(quarter))
        found["quarter_least"].append(min(quarter))
        found["quarter_most"].append(max(quarter))
        found["most_mean"].append(fmean(most))
        found["most_most"].append(max(most))
        found["less_is_better"].append(fmean(quarter) - fmean(most))
    notes = []
    if not bench.live:
        busy = play(bench, skewed=True, busy=True)
        found["busy_quarter"] = [fmean(gains(played, QUARTER)) for played in busy]
        found["busy_most"] = [fmean(gains(played, MOST)) for played in busy]
        notes.append(
            "The gain is there while the node that holds the input is the bottleneck and others stand idle. Where all "
            "five are busy (busy_*), a part that is fetched takes a slot from work that could be done."
        )
    took = {policy: [makespans(played, policy) for played in runs] for policy in SHOWN}
    return Measured(values=found, series={"makespans": took}, notes=notes)


EXPERIMENT = Experiment(
    name="fig12", measure=measure, draw=draw, takes_s={"sim": 50, "process": 10}, repeats=6
)
