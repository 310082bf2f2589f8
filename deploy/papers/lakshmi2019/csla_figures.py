"""Table 3 and Figures 2 to 6 with the policy CSLA, and the main result in live runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from typing import TYPE_CHECKING, Any

from schedbed.deploy.papers.bench import Bench, FinishedRun
from schedbed.deploy.papers.experiment import FEW_REPEATS, Experiment, Measured, Values, by_repeat, minus
from schedbed.deploy.papers.figures import OURS, PAPER, Panel, Samples, legend, mean_bars, panels
from schedbed.deploy.papers.lakshmi2019.two_jobs import (
    APPS,
    FOURS,
    NODES,
    PAIRS,
    QUEUES,
    Gains,
    Group,
    GroupRun,
    cluster,
    described,
    gains_of,
    group_gains,
    job,
    makespans,
    run_alone,
    shares,
    split_gains,
    tags_of,
    unlike,
    untagged,
)
from schedbed.deploy.papers.live_and_simulated import live_experiment
from schedbed.deploy.papers.verdict import Exact
from schedbed.deploy.results.plots import OKABE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Found = dict[str, list[float]]


# Table 3: the errors with which the policy CSLA predicts a node's load, without and with stress tasks, which
# keep a node's CPU or disk busy.

CASES: Mapping[int, tuple[str, ...]] = {1: (), 2: ("cpu",), 3: ("io",), 4: ("cpu", "io")}
CASE_NAMES = {1: "none", 2: "CPU", 3: "IO", 4: "CPU, IO"}
STRESS_S = 400
MEASURES = ("mae", "rmse")
RESOURCES = ("cpu", "io")


def table3(bench: Bench) -> Measured:
    """Run jobs with different stress tasks on every node, and return the errors of CSLA's load predictions.

    The policy CSLA compares its predictions with later loads and reports the errors. The value `ratio` is the
    root mean square error divided by the mean absolute error, which is 1 if all errors are equally large.
    """
    found: Found = {}
    for case, stress in CASES.items():
        finished = bench.run(f"table3-{case}", stressed(stress, live=bench.live))
        found |= by_repeat(_errors(report, f"_{case}") | _shape(report, case) for report in reports(finished))
    grown = {f"{each}_grows": minus(found[f"{each}_mae_4"], found[f"{each}_mae_1"]) for each in RESOURCES}
    return Measured(values=found | grown)


def _errors(report: Mapping[str, Any], ending: str) -> dict[str, float]:
    """Return the errors of both resources in a report of CSLA. `ending` is the end of their keys."""
    return {f"{each}_{name}{ending}": report[each][name] for each in RESOURCES for name in MEASURES}


def _shape(report: Mapping[str, Any], case: int) -> dict[str, float]:
    less = {f"{each}_less_{case}": report[each]["last_mae"] - report[each]["mae"] for each in RESOURCES}
    return less | {f"{each}_ratio_{case}": report[each]["rmse"] / report[each]["mae"] for each in RESOURCES}


def reports(finished: FinishedRun) -> list[Mapping[str, Any]]:
    """Return the report of the policy CSLA about its load predictions, one dictionary per repeat.

    CSLA makes the report at the end of the run.
    """
    return [finished.findings(finished.policies[0], repeat)["predictor"] for repeat in finished.repeats]


def stressed(stress: tuple[str, ...], *, live: bool) -> dict[str, Any]:
    """Return a scenario in which WordCount and Sort run twice, together with stress tasks.

    `stress` lists the kinds of stress tasks (`cpu`, `io`); nodes have an additional slot for each kind.
    """
    machines = cluster(live=live)
    machines["node"] |= {"map_slots": machines["node"]["map_slots"] + len(stress)}
    jobs = [
        {
            "name": f"stress-{kind}",
            "app": "synthetic",
            "queue": "stress",
            "user": kind,
            "maps": machines["nodes"],
            "map": _stress(kind, STRESS_S),
        }
        for kind in stress
    ]
    jobs += [job(app, 2, "default", 10 + 150 * turn) for turn in range(2) for app in ("wc", "sort")]
    return {
        "scale": 0.05 if live else 1.0,
        "cluster": machines,
        "blocks": {"size": "64MiB", "replication": 1},
        "workload": {"jobs": jobs},
        "policies": ["csla"],
    }


def _stress(kind: str, lasts_s: int) -> dict[str, Any]:
    """Return the costs of a stress task that keeps a core or half a disk busy for `lasts_s` seconds."""
    return {"cpu": f"{lasts_s}s"} if kind == "cpu" else {"cpu": "1s", "write": f"{50 * lasts_s}MB"}


DRAW_TABLE3 = panels(
    *(
        Panel(
            {name: f"{each}_mae_{case}" for case, name in CASE_NAMES.items()},
            f"mean absolute error, {each.upper()} use [share]",
            "stress",
        )
        for each in RESOURCES
    ),
    sharey=True,
)


# Figures 2 to 5: pairs of jobs of 1 to 4 GB under the policies Capacity and CSLA.

SIZES_GB = (1, 2, 3, 4)
HEADLINE_GB = 3
LIVE_PAIRS: tuple[Group, ...] = (("wc", "sort"), ("wc", "rtw"), ("pi", "sort"), ("rtw", "sort"))


def pairs(bench: Bench) -> Measured:
    """Run all pairs of jobs of each size under the policies Capacity and CSLA, and compare the makespans.

    Pairs run one after the other, with both jobs in one queue. A live run has only four pairs of one size.
    """
    mine = LIVE_PAIRS if bench.live else PAIRS
    alone = run_alone(bench)
    tags = tags_of(alone)
    values: dict[str, list[float]] = {}
    best: list[Sequence[float]] = []
    series: dict[str, Gains] = {}
    for size_gb in SIZES_GB[:1] if bench.live else SIZES_GB:
        way = GroupRun(name=f"pairs-{size_gb}GB", groups=mine, size_gb=size_gb, anywhere=not bench.live)
        found = group_gains(bench, way)
        values[f"unlike_{size_gb}"], values[f"alike_{size_gb}"], more = split_gains(found, tags)
        if way.anywhere:
            spans = makespans(way.run(bench), len(mine))
            values[f"anywhere_{size_gb}"] = split_gains(gains_of(mine, spans, "anywhere"), tags)[0]
        values[f"untagged_{size_gb}"] = untagged(way.run(bench))
        if size_gb == HEADLINE_GB:
            values["unlike_minus_alike"] = more
        best += [gain for pair, gain in found.items() if unlike(tags, pair)]
        series[f"{size_gb} GB"] = found
    # This is the pair with the largest mean gain, since the largest gain of each repeat would be noise.
    values["best"] = list(max(best, key=fmean))
    tagged = {f"tag_{app}": Exact(value=float(tags[app])) for app in APPS}
    note = f"Maps of each job alone, one for each node: {described(shares(alone))}. Pairs of one tag are like pairs."
    return Measured(values=values | tagged, series=series, notes=[note])


def draw_pairs(figure: Figure, said: Values, measured: Measured) -> None:
    """Draw by how many percent the policy CSLA shortens the makespan of each pair of jobs.

    There is one bar per size of the jobs.
    """
    found: Mapping[str, Gains] = measured.series
    groups = ["\n".join(pair) for pair in next(iter(found.values()))]
    draw_saved(figure, groups, {size: list(mine.values()) for size, mine in found.items()})


def draw_saved(figure: Figure, groups: Sequence[str], bars: Mapping[str, Samples]) -> None:
    """Draw bars of saved makespan above the range that the paper prints for its pairs.

    `bars` is a dictionary from legend to the samples of each group.
    """
    ax = figure.subplots()
    ax.axhspan(12, 23, color=PAPER, alpha=0.3, linewidth=0, label="paper, unlike: 12 to 23%")
    ax.axhline(0, color="black", linewidth=0.6)
    shades = zip(bars.items(), OKABE, strict=False)
    mean_bars(ax, groups, [(label, shade, samples) for (label, samples), shade in shades])
    ax.set(ylabel="makespan saved [%]")


# Figure 6: combinations of four jobs of 3 GB in two queues, under the policies Capacity and CSLA. Two of the
# jobs are in each queue.

ALIKE = ("wc", "pi", "sort", "grep")  # jobs that the paper calls alike
TWO = (QUEUES[0], QUEUES[0], QUEUES[1], QUEUES[1])


def fours(bench: Bench) -> Measured:
    """Run combinations of four jobs under the policies Capacity and CSLA, and compare the makespans.

    Combinations run one after the other. The four jobs are in two queues as in the paper.
    """
    size_gb = 1 if bench.live else HEADLINE_GB
    mine = group_gains(bench, GroupRun(name="fours", groups=FOURS, size_gb=size_gb, queues=TWO, factor=1))
    unlike = [each for four, each in mine.items() if four != ALIKE]
    values: Found = {
        "unlike": [fmean(repeat) for repeat in zip(*unlike, strict=True)],
        "best": max(unlike, key=fmean),
        "alike": mine[ALIKE],
    }
    return Measured(values=values, series={"two in each queue": list(mine.values())})


def draw_fours(figure: Figure, said: Values, measured: Measured) -> None:
    """Draw by how many percent the policy CSLA shortens the makespan of each combination of four jobs."""
    draw_saved(figure, ["\n".join(four) for four in FOURS], measured.series)


# Figures 7 to 11: the same pairs and fours on machines of a public cloud, whose number varies. Each machine has a disk
# of its own there.

PUBLIC_NODES = (2, 4, 8)  # the paper names only 4


def public(bench: Bench) -> Measured:
    """Run pairs of each size and combinations of four jobs on four machines, and pairs of 3 GB on other numbers.

    The values compare the makespans under the policies Capacity and CSLA.
    """
    tags = tags_of(run_alone(bench))
    values: Found = {}
    best: list[Sequence[float]] = []
    series: dict[str, list[float]] = {}
    for size_gb, nodes in [(size, NODES) for size in SIZES_GB] + [
        (HEADLINE_GB, each) for each in PUBLIC_NODES if each != NODES
    ]:
        name = f"public-{size_gb}GB-{nodes}"
        found = group_gains(bench, GroupRun(name=name, size_gb=size_gb, nodes=nodes, own_disks=True))
        mean, alike, _ = split_gains(found, tags)
        if nodes == NODES:
            values[f"unlike_{size_gb}"], values[f"alike_{size_gb}"] = mean, alike
        if nodes == NODES and size_gb <= HEADLINE_GB:  # "for jobs of size 1GB, 2GB, 3GB"
            best += [gain for pair, gain in found.items() if unlike(tags, pair)]
        if size_gb == HEADLINE_GB:
            series[f"{nodes}"] = mean
    values["best"] = list(max(best, key=fmean))
    values |= {f"nodes_{each}": series[f"{each}"] for each in PUBLIC_NODES}
    for few, many in pairwise(PUBLIC_NODES):
        values[f"grows_{many}"] = minus(series[f"{many}"], series[f"{few}"])
    mine = group_gains(
        bench, GroupRun(name="public-fours", groups=FOURS, queues=TWO, factor=1, own_disks=True)
    )
    values["four_best"] = max((mine[four] for four in FOURS if four != ALIKE), key=fmean)
    values["four_alike"] = mine[ALIKE]
    return Measured(values=values)


def draw_public(figure: Figure, said: Values, measured: Measured) -> None:
    """Draw the mean gain of unlike pairs by the size of the jobs and by the number of machines."""
    keys = {f"{gb} GB\n{NODES} machines": f"unlike_{gb}" for gb in SIZES_GB}
    keys |= {f"{HEADLINE_GB} GB\n{each} machines": f"nodes_{each}" for each in PUBLIC_NODES if each != NODES}
    ax = figure.subplots()
    mean_bars(ax, list(keys), [("ours", OURS, [measured.samples(key) for key in keys.values()])])
    ax.axhline(said["best"].number, color=PAPER, linestyle="--", label="paper, largest gain of a pair")
    ax.set(ylabel="makespan saved, unlike pairs [%]")
    legend(ax)


# Figure 4's main result in live runs: two jobs of 3 GB each, WordCount and Sort, under the policies Capacity and
# CSLA.

LIVE_PAIR = ("wc", "sort")


def plan(bench: Bench) -> Mapping[str, Any]:
    """Return the live scenario, in which WordCount and Sort run in one queue."""
    return GroupRun(name="headline", groups=[LIVE_PAIR], size_gb=HEADLINE_GB).scenario(live=True)


def gain(finished: FinishedRun) -> Sequence[float]:
    """Return by how many percent the two jobs' makespan is shorter under the policy CSLA than under Capacity.

    The result has one number per repeat.
    """
    return gains_of([LIVE_PAIR], makespans(finished, 1))[LIVE_PAIR]


EXPERIMENTS = (
    Experiment("table3", table3, DRAW_TABLE3, {"sim": 70, "process": 1200}),
    Experiment(
        "pairs", pairs, draw_pairs, {"sim": 100, "process": 1000}, sim_repeats=FEW_REPEATS, size=(7.2, 3.4)
    ),
    Experiment("fours", fours, draw_fours, {"sim": 20, "process": 1200}, sim_repeats=FEW_REPEATS),
    Experiment("public", public, draw_public, {"sim": 200}, sim_repeats=FEW_REPEATS),
    live_experiment(plan, gain, 580),
)
