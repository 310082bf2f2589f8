"""Figure 3: a job's profile from one month predicts completion times in another month with other slots."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING

from schedbed.deploy.papers.bench import Bench
from schedbed.deploy.papers.experiment import Experiment, Measured, Values
from schedbed.deploy.papers.figures import grouped_bars
from schedbed.deploy.papers.verma2011.table1_months import Month, run_months
from schedbed.deploy.results.plots import OKABE
from schedbed.deploy.results.stats import mean_interval
from schedbed.scheduler.models.aria_bounds import Bounds, bounds

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PROFILED = "sept_256"
PREDICTED = ("sept_64", "oct_256", "oct_64")


def measure(bench: Bench) -> Measured:
    """Measure how well one job's profile predicts the completion times of the three other jobs of Table 1.

    A profile contains the durations of a job's phases. The profiled job ran on September's logs with 256
    slots. In each repeat, its profile is used for the other jobs of this repeat.
    """
    jobs = run_months(bench)
    found: dict[str, list[float]] = {}
    series: dict[str, tuple[list[float], list[Bounds]]] = {}
    for name in PREDICTED:
        predicted = [_predict(known, job) for known, job in zip(jobs[PROFILED], jobs[name], strict=True)]
        took = [job.took_s for job in jobs[name]]
        found[name] = [100 * abs(p.avg_s / t - 1) for p, t in zip(predicted, took, strict=True)]
        found[f"{name}_within"] = [
            float(p.low_s <= t <= p.up_s) for p, t in zip(predicted, took, strict=True)
        ]
        series[name] = (took, predicted)
    return Measured(values=found, series=series)


def _predict(known: Month, job: Month) -> Bounds:
    profile = known.profile.for_data(job.profile.map_input_bytes, job.maps, job.reduces)
    return bounds(profile, job.maps, job.reduces, *job.slots)


def draw(figure: Figure, said: Values, measured: Measured) -> None:
    """Draw measured completion times, and the lower, average and upper bounds that the profile predicts."""
    ax = figure.subplots()
    took = [measured.series[name][0] for name in PREDICTED]
    predicted = [measured.series[name][1] for name in PREDICTED]
    bars = [("measured", "#000000", [fmean(each) for each in took])]
    errors = [[mean_interval(each) for each in took]]
    for number, bound in enumerate(("low", "avg", "up")):
        each = [[getattr(one, f"{bound}_s") for one in some] for some in predicted]
        bars.append((f"predicted T_{bound}", OKABE[number], [fmean(some) for some in each]))
        errors.append([mean_interval(some) for some in each])
    grouped_bars(ax, PREDICTED, bars, errors)
    ax.set(ylabel="completion [s], before scale", xlabel="month and map slots")


EXPERIMENT = Experiment(
    name="fig3", measure=measure, draw=draw, takes_s={"sim": 130, "process": 500}, repeats=5
)
