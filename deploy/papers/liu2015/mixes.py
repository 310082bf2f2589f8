"""Tables 4 to 6 and Figures 4 to 6: the paper's eight tests under the policy FGCS and under YARN's policy.

A test is a mix of jobs that run together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

from schedbed.deploy.papers.bench import Bench, FinishedRun
from schedbed.deploy.papers.experiment import Experiment, Measured, Values
from schedbed.deploy.papers.figures import PAPER, grouped_bars
from schedbed.deploy.papers.liu2015.eight_tests import MIXES, Mix, run_mix
from schedbed.deploy.results.metrics import RunTables, useful
from schedbed.deploy.results.plots import OKABE
from schedbed.deploy.results.stats import mean_interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLES = {"balanced": "balanced (Figure 4)", "io": "I/O-heavy (Figure 5)", "cpu": "CPU-heavy (Figure 6)"}
LIVE_MIXES = ("pi-teragen", "pi-bbp-etl")


def measure(bench: Bench) -> Measured:
    """Run the tests and measure job times and map times under the policy FGCS and under YARN's policy.

    Live runs use two tests only.
    """
    mixes = [mix for mix in MIXES if not bench.live or mix.name in LIVE_MIXES]
    found: dict[str, list[float]] = defaultdict(list)
    gains: dict[Mix, list[Mapping[str, float]]] = defaultdict(list)
    changes: dict[str, list[float]] = {}  # changes of map times, by test and job
    took: dict[str, list[tuple[Mapping[str, float], Mapping[str, float]]]] = defaultdict(list)
    for mix in mixes:
        finished = run_mix(bench, mix)
        scale = finished.run.scenario["scale"]
        pairs = zip(*(finished.each(policy) for policy in finished.policies), strict=True)
        for yarn, fgcs in pairs:
            before, after = lengths(yarn, scale), lengths(fgcs, scale)
            took[mix.name].append((before, after))
            gains[mix].append({name: 100 * (1 - after[name] / before[name]) for name in mix.jobs})
        for name in mix.cpu:
            yarn_s, fgcs_s = map_times(finished, name)
            found[f"{mix.name}_{name}_yarn_map"], found[f"{mix.name}_{name}_map"] = yarn_s, fgcs_s
            changes[f"{mix.name}_{name}"] = map_changes(finished, name)
    for mix, each in gains.items():
        for name in mix.jobs:
            found[f"{mix.name}_{name}"] = [one[name] for one in each]
    summed = _summed(gains) | {"map_worst": most_changed(changes)}
    return Measured(values={**summed, **found}, series={"took": took, "mixes": mixes})


def map_times(finished: FinishedRun, name: str) -> list[list[float]]:
    """Return the mean duration in s of the maps of the job `name`, as one list per policy.

    Each list has one number per repeat. Durations are divided by the scenario's scale, which shortens live
    runs.
    """
    scale = finished.run.scenario["scale"]
    return [[map_time(run, name) / scale for run in finished.each(policy)] for policy in finished.policies]


def map_changes(finished: FinishedRun, name: str) -> list[float]:
    """Return by how many percent maps of the job `name` take longer under the policy FGCS than under YARN's.

    The result has one number per repeat.
    """
    first_s, second_s = map_times(finished, name)
    return [100 * (second / first - 1) for first, second in zip(first_s, second_s, strict=True)]


def most_changed(changes: Mapping[str, list[float]]) -> list[float]:
    """Return the item of `changes` whose mean is furthest from 0: one number per repeat.

    `changes` is a dictionary from test or job to changes in percent. Means are compared, since the largest
    change of each single repeat would be noise.
    """
    return max(changes.values(), key=lambda each: abs(fmean(each)))


def lengths(run: RunTables, scale: float) -> Mapping[str, float]:
    """Return the time in s from submission to end of each job, by job name.

    Times are divided by `scale`, the factor by which live runs are shortened.
    """
    took_s = (run.jobs["finish"] - run.jobs["submit"]) / scale
    return dict(zip(run.jobs["name"], took_s, strict=True))


def map_time(run: RunTables, name: str) -> float:
    """Return the mean duration in s of the maps of the job `name`."""
    ids = dict(zip(run.jobs["name"], run.jobs["job"], strict=True))
    done = useful(run.attempts)
    maps = done[(done["job"] == ids[name]) & (done["kind"] == "map")]
    return float((maps["end"] - maps["start"]).mean())


def extremes(gains: Mapping[Any, list[float]]) -> tuple[list[float], list[float]]:
    """Return the gains of the job with the smallest mean gain, and of the job with the largest.

    `gains` is a dictionary from job to one number per repeat. Means are compared, since the least or largest
    gain of each single repeat would be noise.
    """
    return min(gains.values(), key=fmean), max(gains.values(), key=fmean)


def _summed(gains: Mapping[Mix, Sequence[Mapping[str, float]]]) -> dict[str, list[float]]:
    """Compute the values that the paper's text states: least, largest or mean gains of groups of jobs.

    `gains` is a dictionary from test to a list with one dictionary per repeat, from job name to gain in
    percent. The result has one number per repeat for each value.
    """
    found: dict[str, list[float]] = {}
    for pattern in ("balanced", "io"):
        of_cpu = _each_job(
            gains, [(mix, name) for mix in gains if mix.pattern == pattern for name in mix.cpu]
        )
        if of_cpu:
            found[f"{pattern}_least"], found[f"{pattern}_most"] = extremes(of_cpu)
    heavy = _each_job(gains, [(mix, name) for mix in gains if mix.pattern == "cpu" for name in mix.cpu])
    of_io = _each_job(gains, [(mix, name) for mix in gains for name in mix.io])
    for key, jobs in (("cpu_mean", heavy), ("io_jobs_mean", of_io)):
        found[key] = [fmean(repeat) for repeat in zip(*jobs.values(), strict=True)]
    return found


def _each_job(
    gains: Mapping[Mix, Sequence[Mapping[str, float]]], jobs: Sequence[tuple[Mix, str]]
) -> dict[tuple[str, str], list[float]]:
    return {(mix.name, name): [one[name] for one in gains[mix]] for mix, name in jobs}


def draw(figure: Figure, said: Values, measured: Measured) -> None:
    """Draw the times of all jobs under the policy FGCS and under YARN's policy.

    There is one panel for each kind of test.
    """
    mixes: Sequence[Mix] = measured.series["mixes"]
    patterns = list(dict.fromkeys(mix.pattern for mix in mixes))
    axes = figure.subplots(len(patterns), 1, squeeze=False)[:, 0]
    for ax, pattern in zip(axes, patterns, strict=True):
        groups, bars = [], ([], [])
        errors = ([], [])
        for mix in mixes:
            for name in mix.jobs if mix.pattern == pattern else ():
                groups.append(f"{name}\n{mix.name.replace('-', ' + ')}")
                for side in (0, 1):
                    each = [one[side][name] for one in measured.series["took"][mix.name]]
                    bars[side].append(fmean(each))
                    errors[side].append(mean_interval(each))
        grouped_bars(ax, groups, [("YARN", OKABE[1], bars[0]), ("FGCS", OKABE[0], bars[1])], errors)
        ax.set_ylabel("job [s], before scale")
        ax.set_title(TITLES[pattern], loc="right", fontsize=8, color=PAPER)
        ax.tick_params(axis="x", labelsize=6)


EXPERIMENT = Experiment(
    name="tests", measure=measure, draw=draw, takes_s={"sim": 70, "process": 700}, repeats=3, size=(7.2, 6.6)
)
