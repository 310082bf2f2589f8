"""Table 2: the numbers and durations of tasks of the jobs that are drawn for the workloads W1 and W2."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from statistics import fmean, pstdev
from typing import TYPE_CHECKING

from schedbed.deploy.papers import paper_file
from schedbed.deploy.papers.bench import Bench
from schedbed.deploy.papers.experiment import Experiment, Measured, Values
from schedbed.deploy.papers.figures import OURS, PAPER, grouped_bars
from schedbed.deploy.papers.verdict import Exact
from schedbed.deploy.papers.verma2011.w1_and_w2 import APPS, testbed_job, yahoo_job
from schedbed.tasks.chance import chance

if TYPE_CHECKING:
    from matplotlib.figure import Figure

JOBS = 400  # jobs of each workload in a repeat


def measure(bench: Bench) -> Measured:
    """Draw many jobs of both workloads, and measure their numbers of tasks and the durations of tasks."""
    said = paper_file.load("verma2011").experiments["table2"].values
    sizes: dict[str, set[int]] = defaultdict(set)
    found: dict[str, list[float]] = defaultdict(list)
    for repeat in range(bench.repeats):
        means: dict[str, list[float]] = defaultdict(list)
        for number in range(JOBS):
            app, maps_s, reduces_s = testbed_job(chance(bench.seed, "W1", repeat, number), said)
            sizes[app].add(len(maps_s))
            means[f"{app}_map_s"].append(fmean(maps_s))
            means[f"{app}_reduce_s"].append(fmean(reduces_s))
        for key, each in means.items():
            found[key].append(fmean(each))
    counts = {f"{app}_maps": Exact(value=_like(said, app, sizes[app])) for app in APPS}
    return Measured(
        values={**counts, **found, **_yahoo(bench, said)},
        notes=[
            "W2's numbers of tasks are normal distributions that are often negative; those are drawn again, so that "
            "means are larger and deviations smaller than printed."
        ],
    )


def _like(said: Values, app: str, drawn: set[int]) -> tuple[float, ...]:
    """Return the numbers in the set `drawn`, ordered such that the numbers that the paper prints come first.

    `drawn` has the different numbers of maps of the drawn jobs of the application `app`. `said` are the
    values of Table 2. The printed numbers are in the paper's order, and all others in ascending order.
    """
    order = said[f"{app}_maps"].numbers
    return (*(size for size in order if size in drawn), *sorted(drawn.difference(order)))


def _yahoo(bench: Bench, said: Values) -> dict[str, Exact]:
    """Return means and standard deviations of W2's numbers of tasks and durations of tasks, over all repeats.

    W2 is the workload with Yahoo!'s distributions.
    """
    jobs = [yahoo_job(chance(bench.seed, "W2", n), said) for n in range(JOBS * bench.repeats)]
    drawn: Mapping[str, list[float]] = {
        "yahoo_maps": [len(maps_s) for _, maps_s, _ in jobs],
        "yahoo_reduces": [len(reduces_s) for _, _, reduces_s in jobs],
        "yahoo_map_s": [each for _, maps_s, _ in jobs for each in maps_s],
        "yahoo_reduce_s": [each for _, _, reduces_s in jobs for each in reduces_s],
    }
    return {key: Exact(value=(fmean(each), pstdev(each))) for key, each in drawn.items()}


def draw(figure: Figure, said: Values, measured: Measured) -> None:
    """Draw the mean durations of maps and reduces for each application of the workload W1."""
    axes = figure.subplots(1, 2)
    for ax, kind in zip(axes, ("map", "reduce"), strict=True):
        keys = [f"{app}_{kind}_s" for app in APPS]
        ours = [fmean(measured.samples(key)) for key in keys]
        printed = [said[key].number for key in keys]
        grouped_bars(ax, APPS, [("paper", PAPER, printed), ("ours", OURS, ours)])
        ax.set(ylabel=f"mean {kind} task [s]")
        ax.tick_params(axis="x", rotation=40)


EXPERIMENT = Experiment(
    name="table2", measure=measure, draw=draw, takes_s={"sim": 6, "process": 3}, repeats=5
)
