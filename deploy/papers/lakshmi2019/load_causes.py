"""Causes of errors in the load predictions of the policy CSLA, and causes of CSLA's gains.

The causes are found by changing one part of the setup at a time: the stress tasks, the jobs, or the order of
jobs.
"""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING

from schedbed.deploy.papers.bench import Bench
from schedbed.deploy.papers.experiment import Experiment, Measured, Values
from schedbed.deploy.papers.figures import PAPER, grouped_bars
from schedbed.deploy.papers.lakshmi2019.table3_predictor import CASES, MEASURES, RESOURCES, reports, scenario
from schedbed.deploy.papers.lakshmi2019.two_jobs import (
    PAIRS,
    PairRun,
    cpu_heavy_first,
    mean_gain,
    pair_gains,
    run_alone,
    tags_of,
    unlike,
)
from schedbed.deploy.results.plots import OKABE
from schedbed.deploy.results.stats import mean_interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CHANGES = {"turns": {"turns_s": 60}, "short": {"turns_s": 4}, "pi": {"apps": ("pi",)}}
"""Changes to Table 3's runs: stress in turns of 60 s or 4 s, or Pi as the only job, which uses no disk."""
TURNS = ("turns", "short")

Found = dict[str, list[float]]


def measure(bench: Bench) -> Measured:
    """Measure prediction errors of the policy CSLA as in Table 3, and CSLA's gains for pairs of jobs.

    Each measurement changes one part of the setup.
    """
    return Measured(values={**_errors(bench), **_pairs(bench)})


def _errors(bench: Bench) -> Found:
    """Return the errors of the policy CSLA's load predictions: from key to one number per repeat.

    The result is a dictionary. A key contains the resource (CPU or I/O), the error measure, the case of
    stress tasks in Table 3, and the change of the setup.
    """
    found: Found = {}
    for change, asked in CHANGES.items():
        for case, stress in CASES.items():
            if change in TURNS and not stress:
                continue
            finished = bench.run(f"table3-{change}-{case}", scenario(stress, live=False, **asked))
            reported = reports(finished)
            for resource in RESOURCES:
                for name in MEASURES:
                    key = f"{resource}_{name}_{case}_{change}"
                    found[key] = [report[resource][name] for report in reported]
    return found


def _pairs(bench: Bench) -> Found:
    """Return the mean gain of the policy CSLA for pairs of jobs with different tags, for each changed setup.

    The changes are smaller maps, submitting the CPU-heavy job of each pair first, and both. A gain is a
    reduction of the makespan in percent.
    """
    tags = tags_of(run_alone(bench))
    pairs = [pair for pair in PAIRS if unlike(tags, pair)]
    ahead = cpu_heavy_first(tags)
    ways = {
        "fine_1": PairRun(name="pairs-1GB-fine", pairs=pairs, size_gb=1, finer=4),
        "fine_2": PairRun(name="pairs-2GB-fine", pairs=pairs, size_gb=2, finer=4),
        "cpu_first_2": PairRun(name="pairs-2GB-cpu-first", pairs=ahead, size_gb=2),
        "cpu_first_fine_2": PairRun(name="pairs-2GB-cpu-first-fine", pairs=ahead, size_gb=2, finer=4),
        "cpu_first_4": PairRun(name="pairs-4GB-cpu-first", pairs=ahead, size_gb=4),
        "cpu_first_25": PairRun(name="pairs-25MBps-cpu-first", pairs=ahead, disk_mbps=25),
        "cpu_first_50": PairRun(name="pairs-50MBps-cpu-first", pairs=ahead, disk_mbps=50),
    }
    return {key: mean_gain(pair_gains(bench, way), way.pairs) for key, way in ways.items()}


def draw(figure: Figure, said: Values, measured: Measured) -> None:
    """Draw by how many percent the policy CSLA shortens the makespan of pairs of jobs with different tags.

    There is one bar per changed setup.
    """
    ax = figure.subplots()
    keys = [key for key in measured.values if key.startswith(("fine", "cpu_first"))]
    found = [measured.samples(key) for key in keys]
    ax.axhspan(12, 23, color=PAPER, alpha=0.3, linewidth=0, label="paper, unlike: 12 to 23%")
    bars = [("ours", OKABE[0], [fmean(each) for each in found])]
    grouped_bars(ax, keys, bars, [[mean_interval(each) for each in found]])
    ax.set(ylabel="makespan saved [%]")


EXPERIMENT = Experiment(
    name="causes", measure=measure, draw=draw, takes_s={"sim": 130}, repeats=3, sim_repeats=5
)
