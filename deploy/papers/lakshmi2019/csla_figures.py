"""Table 3 and Figures 2 to 6 with the policy CSLA, what its gains rest on, and the main result in live runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from schedbed.deploy.papers.bench import Bench, FinishedRun
from schedbed.deploy.papers.experiment import Experiment, Measured, Values, by_repeat, minus
from schedbed.deploy.papers.figures import PAPER, Panel, Samples, mean_bars, panels
from schedbed.deploy.papers.lakshmi2019.two_jobs import (
    APPS,
    FOURS,
    PAIRS,
    POLICIES,
    QUEUES,
    WRITERS,
    Gains,
    Group,
    GroupRun,
    cluster,
    cpu_heavy_first,
    described,
    gains_of,
    group_gains,
    job,
    makespans,
    mean_gain,
    run_alone,
    saved,
    shares,
    split_gains,
    tags_of,
    unlike,
    untagged,
)
from schedbed.deploy.papers.live_and_simulated import live_experiment
from schedbed.deploy.results.metrics import RunTables, heartbeat_intervals
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
    return [
        finished.findings(finished.policies[0], repeat)["predictor"] for repeat in range(finished.run.repeats)
    ]


def stressed(
    stress: tuple[str, ...],
    *,
    live: bool,
    turns_s: int = 0,
    apps: Sequence[str] = ("wc", "sort"),
) -> dict[str, Any]:
    """Return a scenario in which the applications `apps` run twice, together with stress tasks.

    `stress` lists the kinds of stress tasks (`cpu`, `io`); nodes have an additional slot for each kind. With
    `turns_s`, stress tasks run for this number of seconds and pause for the same time.
    """
    machines = cluster(live=live)
    machines["node"] |= {"map_slots": machines["node"]["map_slots"] + len(stress)}
    lasts_s = turns_s or STRESS_S
    jobs = [
        {
            "name": f"stress-{kind}",
            "app": "synthetic",
            "queue": "stress",
            "user": kind,
            "maps": machines["nodes"],
            "map": _stress(kind, lasts_s),
            "submit": f"{begins_s}s",
        }
        for kind in stress
        for begins_s in range(0, STRESS_S, 2 * lasts_s)
    ]
    jobs += [job(app, 2, "default", 10 + 150 * turn) for turn in range(2) for app in apps]
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
        way = GroupRun(name=f"pairs-{size_gb}GB", groups=mine, size_gb=size_gb)
        found = group_gains(bench, way)
        values[f"unlike_{size_gb}"], values[f"alike_{size_gb}"], more = split_gains(found, tags)
        values[f"untagged_{size_gb}"] = untagged(way.run(bench))
        if size_gb == HEADLINE_GB:
            values["unlike_minus_alike"] = more
        best += [gain for pair, gain in found.items() if unlike(tags, pair)]
        series[f"{size_gb} GB"] = found
    # This is the pair with the largest mean gain, since the largest gain of each repeat would be noise.
    values["best"] = list(max(best, key=fmean))
    tagged = {f"tag_{app}": [float(tags[app])] * bench.repeats for app in APPS}
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
QUEUES_OF: dict[str, tuple[Sequence[str], int]] = {"": (TWO, 1), "_one": (QUEUES[:1] * 4, 2)}
"""The queue of each job, and how many times the queue's half a user may hold: two jobs in each queue as in the paper,
and all four in one that may grow to the whole cluster."""


def fours(bench: Bench) -> Measured:
    """Run combinations of four jobs under the policies Capacity and CSLA, and compare the makespans.

    Combinations run one after the other. The four jobs are in two queues as in the paper; simulations also
    run them in a single queue, and in another order.
    """
    values: Found = {}
    series: dict[str, Samples] = {}
    for way in QUEUES_OF:
        if way and bench.live:
            continue
        mine = four_gains(bench, way, FOURS)
        unlike = [each for four, each in mine.items() if four != ALIKE]
        values[f"unlike{way}"] = [fmean(repeat) for repeat in zip(*unlike, strict=True)]
        values[f"best{way}"] = max(unlike, key=fmean)
        values[f"alike{way}"] = mine[ALIKE]
        series[way] = list(mine.values())
        if not bench.live:
            turns = four_gains(bench, way, in_turns(FOURS), "_turns")
            values[f"best{way}_turns"] = max(turns.values(), key=fmean)
    return Measured(values=values, series=series)


def in_turns(fours: Sequence[Group]) -> Sequence[Group]:
    """Return the combinations of two CPU-heavy and two IO-heavy jobs, with the two kinds of jobs in turns.

    A CPU-heavy job is first. If two jobs are in each queue, each queue then has one of both kinds.
    """
    found: list[Group] = []
    for four in fours:
        heavy_io = [app for app in four if app in WRITERS]
        heavy_cpu = [app for app in four if app not in WRITERS]
        if len(heavy_io) == len(heavy_cpu):
            found.append(tuple(app for pair in zip(heavy_cpu, heavy_io, strict=True) for app in pair))
    return found


def four_gains(bench: Bench, way: str, fours: Sequence[Group], order: str = "") -> Gains:
    """Return by how many percent the policy CSLA shortens the makespan of each combination of four jobs.

    `way` is a key of `QUEUES_OF`. `order` is appended to the name of the run's folder.
    """
    queues, factor = QUEUES_OF[way]
    size_gb, name = 1 if bench.live else HEADLINE_GB, f"fours{way}{order}"
    return group_gains(
        bench, GroupRun(name=name, groups=fours, size_gb=size_gb, queues=queues, factor=factor)
    )


def draw_fours(figure: Figure, said: Values, measured: Measured) -> None:
    """Draw by how many percent the policy CSLA shortens the makespan of each combination of four jobs.

    There is one bar for two queues and one for a single queue.
    """
    labels = {"": "two in each queue", "_one": "all in one queue"}
    bars = {labels[way]: samples for way, samples in measured.series.items()}
    draw_saved(figure, ["\n".join(four) for four in FOURS], bars)


# Beyond Figure 4: the gain of the policy CSLA with other queues, other disks, and another order of jobs.

ONE = GroupRun(name="pairs-3GB")  # the pairs of 3 GB in one queue, a run shared with the experiment `pairs`
EACH = GroupRun(name="pairs-3GB-each", queues=QUEUES, factor=1)
CPU_FIRST = "pairs-3GB-cpu-first"  # the run with the CPU-heavy job of each unlike pair ahead
EACH_GROWN = GroupRun(name="pairs-3GB-each-grown", queues=QUEUES)
DISKS_MBPS = (25, 50)
SHOWN = ("", "_each", "_each_grown", *(f"_{rate}" for rate in DISKS_MBPS))
TITLES = ("one queue", "a queue each", "each grown", *(f"{rate} MB/s" for rate in DISKS_MBPS))


def of_disk(rate_mbps: int) -> GroupRun:
    """Return the settings for pairs of 3 GB in one queue, on a host's disk of `rate_mbps` MB/s."""
    return GroupRun(name=f"pairs-3GB-{rate_mbps}MBps", disk_mbps=rate_mbps)


def ways(bench: Bench) -> Measured:
    """Measure the gains of the policy CSLA for pairs of jobs with other queues, disks or job orders.

    Each job has 3 GB of data.
    """
    tags = tags_of(run_alone(bench))
    settings = {"": ONE, "_each_grown": EACH_GROWN, "_each": EACH}
    settings |= {f"_{rate}": of_disk(rate) for rate in DISKS_MBPS}
    spans = {key: makespans(way.run(bench), len(way.groups)) for key, way in settings.items()}
    values: Found = {}
    for key, way in settings.items():
        found = split_gains(gains_of(way.groups, spans[key]), tags)
        values[f"unlike{key}"], values[f"alike{key}"], values[f"difference{key}"] = found
    mixed = saved(spans["_each_grown"]["capacity"], spans[""]["capacity"])
    values["mixed"] = _mean_unlike(tags, ONE, mixed)
    return Measured(values=values | _orders(bench, tags) | _reasons(bench, tags))


def _reasons(bench: Bench, tags: Mapping[str, int]) -> Found:
    """Return how much any policy could gain, and how long both jobs of a pair run at the same time.

    The values are means over the pairs with different tags, in percent. `tags` is a dictionary from job to
    tag.
    """
    ahead = GroupRun(name=CPU_FIRST, groups=cpu_heavy_first(tags))
    found: Found = {}
    for key, way in (("room", ONE), *((f"room_{rate}", of_disk(rate)) for rate in DISKS_MBPS)):
        found[key] = _mean_unlike(tags, way, rooms(way.run(bench)))
    for key, way in (("cpu_first", ahead), ("each", EACH)):
        finished = way.run(bench)
        for name, policy in zip(POLICIES, finished.policies, strict=True):
            found[f"together_{key}_{name}"] = _mean_unlike(tags, way, together(finished, policy))
    return found


def _mean_unlike(tags: Mapping[str, int], way: GroupRun, by_pair: Sequence[list[float]]) -> list[float]:
    """Return the mean of values over the pairs with different tags, one number per repeat.

    `by_pair` has a list for each pair of `way`.
    """
    pairs = [pair for pair in way.groups if unlike(tags, pair)]
    return mean_gain(dict(zip(way.groups, by_pair, strict=True)), pairs)


def _orders(bench: Bench, tags: Mapping[str, int]) -> Found:
    """Return the mean gain of the policy CSLA for pairs with different tags, for both orders of submission.

    The CPU-heavy job of each pair is submitted either first or last. `tags` is a dictionary from job to tag.
    """
    first = cpu_heavy_first(tags)
    last = [(second, head) for head, second in first]
    ways = {
        "cpu_first": GroupRun(name=CPU_FIRST, groups=first),
        "io_first": GroupRun(name="pairs-3GB-io-first", groups=last),
        "io_first_bytes": GroupRun(name="pairs-3GB-io-first-bytes", groups=last, host_disk=False),
    }
    return {key: mean_gain(group_gains(bench, way), way.groups) for key, way in ways.items()}


def draw_ways(figure: Figure, said: Values, measured: Measured) -> None:
    """Draw by how many percent the policy CSLA shortens the makespan of pairs of jobs, for each setting.

    Pairs with different tags and pairs with equal tags have separate bars.
    """
    kinds = ("unlike", "alike")
    bars = {f"{kind} pairs": [measured.samples(f"{kind}{way}") for way in SHOWN] for kind in kinds}
    draw_saved(figure, TITLES, bars)


# The use of CPU and disk while a group of jobs runs, and the time in which the jobs of a group run together. No
# policy can gain from a resource that is busy all the time.


def rooms(finished: FinishedRun) -> list[list[float]]:
    """Return by how many percent any policy could shorten each group's makespan under Capacity at most.

    No policy can be faster than the busiest resource needs for the group's work: the cores of all nodes
    together, or the disk that they share. The result has one list per group, with one number per repeat.
    """
    return _by_group([_rooms(run) for run in finished.each(finished.policies[0])])


def _rooms(run: RunTables) -> np.ndarray:
    """Return a run's share of each makespan in percent in which the busiest resource is idle."""
    by_submit = run.jobs.groupby("submit", sort=True)["finish"].max()
    began_s = by_submit.index.to_numpy(float)
    took_s = by_submit.to_numpy(float) - began_s
    heartbeats = run.tables["heartbeats"]
    covered_s = heartbeat_intervals(heartbeats)
    # A heartbeat is about the time before it, so one at a submission belongs to the group before.
    groups = np.clip(np.searchsorted(began_s, heartbeats["t"].to_numpy(float)) - 1, 0, None)
    cpu_s, disk_s = (
        np.bincount(groups, heartbeats[column].fillna(0.0).to_numpy(float) * covered_s, len(began_s))
        for column in ("cpu_util", "disk_util")
    )
    # Each node's shares are of its own cores, but of the whole shared disk.
    return 100 * (1 - np.maximum(cpu_s / len(run.nodes), disk_s) / took_s)


def together(finished: FinishedRun, policy: str) -> list[list[float]]:
    """Return for how much of the time until a pair's first job ends, in percent, both jobs run under `policy`.

    The result has one list per pair, with one number per repeat.
    """
    return _by_group([_together(run) for run in finished.each(policy)])


def _together(run: RunTables) -> np.ndarray:
    pairs = run.jobs.groupby("submit", sort=True)
    first_ends_s = pairs["finish"].min()
    both_s = first_ends_s - pairs["start"].max()
    return (
        100 * np.clip(both_s.to_numpy(float), 0, None) / (first_ends_s - first_ends_s.index).to_numpy(float)
    )


def _by_group(repeats: list[np.ndarray]) -> list[list[float]]:
    return np.transpose(repeats).tolist()


# Causes of errors in the load predictions of the policy CSLA, and causes of CSLA's gains. They are found by
# changing one part of the setup at a time: the stress tasks, the jobs, or the order of jobs.

CHANGES = {"turns": {"turns_s": 60}, "short": {"turns_s": 4}, "pi": {"apps": ("pi",)}}
"""Changes to Table 3's runs: stress in turns of 60 s or 4 s, or Pi as the only job, which uses no disk."""
TURNS = ("turns", "short")


def causes(bench: Bench) -> Measured:
    """Measure prediction errors of the policy CSLA as in Table 3, and CSLA's gains for pairs of jobs.

    Each measurement changes one part of the setup.
    """
    return Measured(values={**_stress_changed(bench), **_pairs(bench)})


def _stress_changed(bench: Bench) -> Found:
    """Return the errors of the policy CSLA's load predictions: from key to one number per repeat.

    The result is a dictionary. A key contains the resource (CPU or I/O), the error measure, the case of
    stress tasks in Table 3, and the change of the setup.
    """
    found: Found = {}
    for change, asked in CHANGES.items():
        for case, stress in CASES.items():
            if change in TURNS and not stress:
                continue
            finished = bench.run(f"table3-{change}-{case}", stressed(stress, live=False, **asked))
            found |= by_repeat(_errors(report, f"_{case}_{change}") for report in reports(finished))
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
        "fine_1": GroupRun(name="pairs-1GB-fine", groups=pairs, size_gb=1, finer=4),
        "fine_2": GroupRun(name="pairs-2GB-fine", groups=pairs, size_gb=2, finer=4),
        "cpu_first_2": GroupRun(name="pairs-2GB-cpu-first", groups=ahead, size_gb=2),
        "cpu_first_fine_2": GroupRun(name="pairs-2GB-cpu-first-fine", groups=ahead, size_gb=2, finer=4),
        "cpu_first_4": GroupRun(name="pairs-4GB-cpu-first", groups=ahead, size_gb=4),
        "cpu_first_25": GroupRun(name="pairs-25MBps-cpu-first", groups=ahead, disk_mbps=25),
        "cpu_first_50": GroupRun(name="pairs-50MBps-cpu-first", groups=ahead, disk_mbps=50),
    }
    return {key: mean_gain(group_gains(bench, way), way.groups) for key, way in ways.items()}


def draw_causes(figure: Figure, said: Values, measured: Measured) -> None:
    """Draw by how many percent the policy CSLA shortens the makespan of pairs of jobs with different tags.

    There is one bar per changed setup.
    """
    keys = [key for key in measured.values if key.startswith(("fine", "cpu_first"))]
    draw_saved(figure, keys, {"ours": [measured.samples(key) for key in keys]})


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
    Experiment("table3", table3, DRAW_TABLE3, {"sim": 25, "process": 400}),
    Experiment("pairs", pairs, draw_pairs, {"sim": 110, "process": 500}, size=(7.2, 3.4)),
    Experiment("ways", ways, draw_ways, {"sim": 190}),
    Experiment("fours", fours, draw_fours, {"sim": 110, "process": 400}),
    Experiment("causes", causes, draw_causes, {"sim": 130}, sim_repeats=5),
    live_experiment(plan, gain, 580),
)
