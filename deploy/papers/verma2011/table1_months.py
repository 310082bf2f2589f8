"""Table 1: the profiles of four executions of one application, and how much the profiles differ.

A profile contains the durations of a job's phases.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from schedbed.deploy.papers.bench import Bench
from schedbed.deploy.papers.experiment import Experiment, Measured, Values
from schedbed.deploy.papers.figures import beside_paper
from schedbed.deploy.papers.verma2011.months import Month, run_months, run_unlimited

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PHASES = ("map", "first_shuffle", "typical_shuffle", "reduce")
JOBS = ("sept_256", "oct_256", "sept_64", "oct_64")
PRINTED_SPREAD = (0.75 * 26.1, 1.25 * 26.1)
"""Within 25% of the spread, in percent, that the printed first shuffles have: 10 to 13 s, 11.5 s on average."""


def measure(bench: Bench) -> Measured:
    """Measure the mean duration of each phase of four jobs, and by how many percent it varies.

    Variation is measured between repeats and between the jobs.
    """
    jobs = run_months(bench)
    found = {f"{phase}_{job}": averages(jobs, job, phase) for job in JOBS for phase in PHASES}
    spread = {f"spread_{phase}": spread_of([found[f"{phase}_{job}"] for job in JOBS]) for phase in PHASES}
    if not bench.live:
        free = run_unlimited(bench)
        shuffles = [averages(free, job, "typical_shuffle") for job in JOBS]
        spread["spread_unlimited"] = spread_of(shuffles)
        spread["unlimited_sept_256"], spread["unlimited_sept_64"] = shuffles[0], shuffles[2]
    spread["spread_first_shuffle_reached"] = [
        100.0 * (PRINTED_SPREAD[0] <= each <= PRINTED_SPREAD[1]) for each in spread["spread_first_shuffle"]
    ]
    return Measured(values={**found, **spread, "variation": _variation(jobs)})


def averages(jobs: Mapping[str, Sequence[Month]], job: str, phase: str) -> list[float]:
    """Return the mean duration in s of a phase of the job, such as `first_shuffle`, one number per repeat."""
    return [getattr(run.profile, phase).avg_s for run in jobs[job]]


def _variation(jobs: Mapping[str, Sequence[Month]]) -> list[float]:
    """Return the largest variation of mean task times between repeats, in percent, one number per repeat.

    For each job and kind of task, the mean time in a repeat is compared with the mean over all repeats. The
    number for a repeat is the largest distance, in percent of the mean over all repeats.
    """
    worst = [0.0] * len(jobs[JOBS[0]])
    for runs in jobs.values():
        for phase in ("map", "reduce"):
            averages = [getattr(run.profile, phase).avg_s for run in runs]
            middle = fmean(averages)
            worst = [max(w, 100 * abs(a / middle - 1)) for w, a in zip(worst, averages, strict=True)]
    return worst


def spread_of(by_job: Sequence[Sequence[float]]) -> list[float]:
    """Return how much a value differs between jobs: the largest minus the smallest, in percent of the mean.

    `by_job` has one list per job with one number per repeat. The result has one number per repeat.
    """
    return [100 * (max(four) - min(four)) / fmean(four) for four in zip(*by_job, strict=True)]


def draw(figure: Figure, said: Values, measured: Measured) -> None:
    """Draw the mean duration of each phase for the four jobs, with one panel per phase."""
    axes = figure.subplots(1, len(PHASES))
    for ax, phase in zip(axes, PHASES, strict=True):
        keys = [f"{phase}_{job}" for job in JOBS]
        beside_paper(ax, JOBS, keys, said, measured)
        ax.tick_params(axis="x", rotation=60)
        if phase != PHASES[0] and (key := ax.get_legend()):
            key.remove()
        ax.set(ylabel=f"{phase.replace('_', ' ')}, average [s]")


EXPERIMENT = Experiment(
    name="table1",
    measure=measure,
    draw=draw,
    takes_s={"sim": 170, "process": 500},
    repeats=5,
    size=(7.2, 3.2),
)
