"""Table 1: the CPU demand of each benchmark's tasks, as the policy FGCS measures it in sample jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedbed.deploy.papers.bench import Bench
from schedbed.deploy.papers.experiment import Experiment, Measured, Values
from schedbed.deploy.papers.figures import OURS, PAPER, grouped_bars
from schedbed.deploy.papers.liu2015.eight_tests import CPU_JOBS, IO_JOBS, demands, samples
from schedbed.deploy.papers.verdict import Exact

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def measure(bench: Bench) -> Measured:
    """Measure the CPU demands of tasks as the policy FGCS logs them, in whole percents of a core.

    Rounding removes the random differences between repeats.
    """
    found = demands(samples(bench, live=bench.live))
    maps = {f"{name}_map": Exact(value=found[name]["map"]) for name in CPU_JOBS + IO_JOBS}
    reduces = {f"{name}_reduce": Exact(value=found[name]["reduce"]) for name in CPU_JOBS}
    return Measured(values=maps | reduces)


def draw(figure: Figure, said: Values, measured: Measured) -> None:
    """Draw the CPU demands of maps next to those in the paper."""
    ax = figure.subplots()
    keys = [f"{name}_map" for name in CPU_JOBS + IO_JOBS]
    printed, ours = [said[key].number for key in keys], [measured.samples(key)[0] for key in keys]
    grouped_bars(ax, CPU_JOBS + IO_JOBS, [("paper", PAPER, printed), ("ours", OURS, ours)])
    ax.set_ylabel("CPU demand of a map [% of a core]")


EXPERIMENT = Experiment(
    name="table1", measure=measure, draw=draw, takes_s={"sim": 10, "process": 180}, repeats=1
)
