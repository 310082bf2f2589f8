"""Tables 4 to 6 and Figures 4 to 6: eight mixed workloads under FGCS and under YARN's vcores."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from schedbed.deploy.papers.bench import Bench
from schedbed.deploy.papers.experiment import Experiment, Measured, Values
from schedbed.deploy.papers.figures import PAPER, grouped_bars
from schedbed.deploy.papers.liu2015.eight_tests import MIXES, Mix, play
from schedbed.deploy.results.metrics import RunTables, useful
from schedbed.deploy.results.plots import OKABE
from schedbed.deploy.results.stats import mean_interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLES = {"balanced": "balanced (Figure 4)", "io": "I/O-heavy (Figure 5)", "cpu": "CPU-heavy (Figure 6)"}
LIVE_MIXES = ("pi-teragen", "pi-bbp-etl")


def measure(bench: Bench) -> Measured:
    """Live two of the tests only."""
    mixes = [mix for mix in MIXES if not bench.live or mix.name in LIVE_MIXES]
    found: dict[str, list[float]] = defaultdict(list)
    gains: dict[Mix, list[Mapping[str, float]]] = defaultdict(list)
    changes: dict[str, list[float]] = defaultdict(list)  # of map times, by test and job
    took: dict[str, list[tuple[Mapping[str, float], Mapping[str, float]]]] = defaultdict(list)
    for mix in mixes:
        played = play(bench, mix)
        scale = played.run.scenario["scale"]
        pairs = zip(*(played.each(policy) for policy in played.policies), strict=True)
        for yarn, fgcs in pairs:
            before, after = lengths(yarn, scale), lengths(fgcs, scale)
            took[mix.name].append((before, after))
            gains[mix].append({name: 100 * (1 - after[name] / before[name]) for name in mix.jobs})
            for name in mix.cpu:
                maps_s = [map_time(run, name) / scale for run in (yarn, fgcs)]
                found[f"{mix.name}_{name}_yarn_map"].append(maps_s[0])
                found[f"{mix.name}_{name}_map"].append(maps_s[1])
                changes[f"{mix.name}_{name}"].append(100 * (maps_s[1] / maps_s[0] - 1))
    for mix, each in gains.items():
        for name in mix.jobs:
            found[f"{mix.name}_{name}"] = [one[name] for one in each]
    # The test whose mean change is the largest, with its repeats: the largest of each repeat would be its noise.
    worst = max(changes.values(), key=lambda each: abs(fmean(each)))
    summed = _summed(gains, bench.repeats) | {"map_worst": worst}
    return Measured(values={**summed, **found}, series={"took": took, "mixes": mixes})


def lengths(run: RunTables, scale: float) -> Mapping[str, float]:
    """From submission to end of each job, s before scale, by name."""
    took_s = (run.jobs["finish"] - run.jobs["submit"]) / scale
    return dict(zip(run.jobs["name"], took_s, strict=True))


def map_time(run: RunTables, name: str) -> float:
    """Mean time of a job's maps, s."""
    ids = dict(zip(run.jobs["name"], run.jobs["job"], strict=True))
    done = useful(run.attempts)
    maps = done[(done["job"] == ids[name]) & (done["kind"] == "map")]
    return float((maps["end"] - maps["start"]).mean())


def _summed(gains: Mapping[Mix, Sequence[Mapping[str, float]]], repeats: int) -> dict[str, list[float]]:
    """The paper's sentences, repeat by repeat, of the patterns that were run."""
    found: dict[str, list[float]] = defaultdict(list)
    for repeat in range(repeats):
        of_cpu: dict[str, list[float]] = defaultdict(list)
        of_io: list[float] = []
        for mix, each in gains.items():
            of_cpu[mix.pattern] += [each[repeat][name] for name in mix.cpu]
            of_io += [each[repeat][name] for name in mix.io]
        for pattern in ("balanced", "io"):
            if of_cpu[pattern]:
                found[f"{pattern}_least"].append(min(of_cpu[pattern]))
                found[f"{pattern}_most"].append(max(of_cpu[pattern]))
        found["cpu_mean"].append(fmean(of_cpu["cpu"]))
        found["io_jobs_mean"].append(fmean(of_io))
    return found


def draw(figure: Figure, said: Values, measured: Measured) -> None:
    """A picture for each pattern: job times under both, by mix."""
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
    name="tests", measure=measure, draw=draw, takes_s={"sim": 200, "process": 700}, repeats=3, size=(7.2, 6.6)
)
