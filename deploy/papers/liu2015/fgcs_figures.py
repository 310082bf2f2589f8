"""Table 1 and Figures 2 and 4 to 6 with FGCS and YARN, and the main result live.

YARN assigns virtual cores (vcores) to tasks, and the policy FGCS the CPU demands that it measured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from schedbed.deploy.papers import paper_file
from schedbed.deploy.papers.bench import Bench, FinishedRun
from schedbed.deploy.papers.experiment import FEW_REPEATS, Experiment, Measured, Values, percent_less
from schedbed.deploy.papers.figures import OURS, PAPER, Panel, legend, mean_bars, panels
from schedbed.deploy.papers.liu2015.eight_tests import (
    CORES,
    CPU_JOBS,
    DISK_BPS,
    IO_JOBS,
    MIXES,
    YARN,
    demands,
    job,
    jobs_of,
    printed_demand,
    run_mix,
    samples,
    scenario,
)
from schedbed.deploy.papers.live_and_simulated import live_experiment
from schedbed.deploy.papers.verdict import Exact
from schedbed.deploy.results.metrics import RunTables, useful, utilisation
from schedbed.deploy.results.plots import OKABE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Job = tuple[str, str]  # names of a test and of a job in it
Gains = Mapping[Job, list[float]]
"""By how many percent FGCS shortens a job, one number per repeat."""


# Figure 2: the CPU load of a node that runs one TeraGen task on each of its cores.

FASTER = (2, 5)
"""Factors on the disk's rate, since a page cache of 24 GB may take part of the 16 GB at once."""


def fig2(bench: Bench) -> Measured:
    """Measure the CPU load of a node with a TeraGen task on each core. Simulations also try faster disks."""
    finished = _run(bench, 1)
    loads, beside = _loads(finished), _cpu_beside(finished)
    values = {"load": loads, "idle": [100 - load for load in loads], "beside": beside}
    for factor in () if bench.live else FASTER:
        values[f"load_{factor}"] = _loads(_run(bench, factor))
    scale = finished.scale
    heartbeats = _during(finished.of(finished.policies[0])).heartbeats
    shown = {"t": heartbeats["t"].to_numpy() / scale, "load": 100 * heartbeats["cpu_util"].to_numpy()}
    return Measured(values=values, series=shown)


def _run(bench: Bench, factor: int) -> FinishedRun:
    asked = scenario([job("teragen", CORES)], ["fair"], live=bench.live)
    node = {**asked["cluster"]["node"], "disk": f"{round(factor * DISK_BPS)}B/s"}
    cluster = {**asked["cluster"], "nodes": 1, "node": node}
    name = "fig2" if factor == 1 else f"fig2-{factor}"
    return bench.run(name, {**asked, "cluster": cluster, "blocks": {**asked["blocks"], "replication": 1}})


def _loads(finished: FinishedRun) -> list[float]:
    """Return the mean CPU load of the single node while the job ran, in percent, one number per repeat."""
    runs = finished.each(finished.policies[0])
    return [100 * utilisation(_during(run).heartbeats)["cpu"] for run in runs]


def _cpu_beside(finished: FinishedRun) -> list[float]:
    """Return the CPU time that is missing here to reach the node's load in the paper.

    The result is in core-seconds per GB that TeraGen wrote, one number per repeat.
    """
    wanted = paper_file.load("liu2015").experiments["fig2"].values["load"].number / 100
    found: list[float] = []
    for run in finished.each(finished.policies[0]):
        lasted_s = float((run.jobs["finish"] - run.jobs["submit"]).max()) / finished.scale
        (node,) = run.nodes
        used = utilisation(_during(run).heartbeats)["cpu"]
        written_gb = float(run.attempts["output_bytes"].sum()) / finished.scale / 1e9
        found.append((wanted - used) * node["cores"] * lasted_s / written_gb)
    return found


def _during(run: RunTables) -> RunTables:
    """Return the run's tables without the heartbeats that came after the end of the job."""
    heartbeats = run.heartbeats[run.heartbeats["t"] <= run.jobs["finish"].max()]
    return RunTables(run.policy, run.repeat, {**run.tables, "heartbeats": heartbeats}, run.nodes)


def draw_fig2(figure: Figure, said: Values, measured: Measured) -> None:
    """Draw the node's CPU load over time, and the paper's mean."""
    ax = figure.subplots()
    ax.step(measured.series["t"], measured.series["load"], where="pre", color=OURS, label="ours")
    ax.axhline(said["load"].number, color=PAPER, linestyle="--", label="paper, mean")
    ax.set(xlabel="time [s], before scale", ylabel="CPU load [%]", ylim=(0, 100), xlim=(0, None))
    ax.set_xlim(0, float(np.max(measured.series["t"])))
    legend(ax)


# Table 1: the CPU demand of each benchmark's tasks, as the policy FGCS measures it in sample jobs.


def table1(bench: Bench) -> Measured:
    """Measure the CPU demands of tasks as the policy FGCS logs them, in whole percents of a core.

    Rounding removes the random differences between repeats.
    """
    found = demands(samples(bench, live=bench.live))
    maps = {f"{name}_map": Exact(value=found[name]["map"]) for name in CPU_JOBS + IO_JOBS}
    reduces = {f"{name}_reduce": Exact(value=found[name]["reduce"]) for name in CPU_JOBS}
    return Measured(values=maps | reduces)


MAPS = {name: f"{name}_map" for name in CPU_JOBS + IO_JOBS}
DRAW_TABLE1 = panels(Panel(MAPS, "CPU demand of a map [% of a core]"))


# Tables 4 to 6 and Figures 4 to 6: the paper's eight tests under the policy FGCS and under YARN's policy. A test
# is a mix of jobs that run together.

TITLES = {"balanced": "balanced (Figure 4)", "io": "I/O-heavy (Figure 5)", "cpu": "CPU-heavy (Figure 6)"}
LEGENDS = (("YARN, 7 vcores", OKABE[1]), ("FGCS", OKABE[0]), ("YARN, 8 vcores", OKABE[2]))
LIVE_MIXES = ("pi-teragen", "pi-bbp-etl")


def tests(bench: Bench) -> Measured:
    """Run the tests and measure job times and map times under the policy FGCS and under YARN's policy.

    Values whose keys end with `_8` are against YARN with 8 vcores. Live runs use two tests and 7 vcores only.
    """
    found: dict[str, list[float]] = {}
    took: dict[Job, list[list[float]]] = {}  # under YARN, under FGCS, and under YARN with 8 vcores
    maps: dict[str, list[list[float]]] = {}  # mean times of maps under them, by test and job
    for mix in MIXES:
        if bench.live and mix.name not in LIVE_MIXES:
            continue
        finished = run_mix(bench, mix)
        for name in mix.jobs:
            took[mix.name, name] = job_lengths(finished, name)
        for name in mix.cpu:
            key = f"{mix.name}_{name}"
            maps[key] = map_times(finished, name)
            found[f"{key}_yarn_map"], found[f"{key}_map"] = maps[key][:2]
    found["map_worst"] = most_changed({key: longer(times[0], times[1]) for key, times in maps.items()})
    for ending, yarn in (("", 0),) if bench.live else (("", 0), ("_8", 2)):
        gains = {each: shorter(times[yarn], times[1]) for each, times in took.items()}
        if not ending:
            found |= {f"{mix}_{name}": gain for (mix, name), gain in gains.items()}
        found |= {f"{key}{ending}": gain for key, gain in summed(gains).items()}
    return Measured(values=found, series={"took": took})


def by_policy(finished: FinishedRun, time_s: Callable[[RunTables], float]) -> list[list[float]]:
    """Return the time that the function `time_s` computes from a run, as one list per policy.

    Each list has one number per repeat. Durations are divided by the scenario's scale, which shortens live
    runs.
    """
    scale = finished.scale
    return [[time_s(run) / scale for run in finished.each(policy)] for policy in finished.policies]


def job_lengths(finished: FinishedRun, name: str) -> list[list[float]]:
    """Return the time in s from submission to end of the job `name`, as one list per policy."""

    def length_s(run: RunTables) -> float:
        (mine,) = run.jobs[run.jobs["name"] == name].to_dict("records")
        return mine["finish"] - mine["submit"]

    return by_policy(finished, length_s)


def map_times(finished: FinishedRun, name: str) -> list[list[float]]:
    """Return the mean duration in s of the maps of the job `name`, as one list per policy."""
    return by_policy(finished, lambda run: map_time(run, name))


def shorter(yarn_s: Sequence[float], fgcs_s: Sequence[float]) -> list[float]:
    """Return by how many percent times are shorter under FGCS than under YARN's policy, for each repeat."""
    return [percent_less(mine, than) for than, mine in zip(yarn_s, fgcs_s, strict=True)]


def longer(yarn_s: Sequence[float], fgcs_s: Sequence[float]) -> list[float]:
    """Return by how many percent times are longer under FGCS than under YARN's policy, for each repeat."""
    return [-percent for percent in shorter(yarn_s, fgcs_s)]


def most_changed(changes: Mapping[str, list[float]]) -> list[float]:
    """Return the change that is furthest from 0 in each repeat. `changes` has a list for each test and job."""
    return [max(each, key=abs) for each in zip(*changes.values(), strict=True)]


def map_time(run: RunTables, name: str) -> float:
    """Return the mean duration in s of the maps of the job `name`."""
    ids = dict(zip(run.jobs["name"], run.jobs["job"], strict=True))
    done = useful(run.attempts)
    maps = done[(done["job"] == ids[name]) & (done["kind"] == "map")]
    return float((maps["end"] - maps["start"]).mean())


def extremes(gains: Mapping[Any, list[float]]) -> tuple[list[float], list[float]]:
    """Return the least and the largest gain of the jobs, for each repeat, as the paper prints them of one run."""
    by_run = list(zip(*gains.values(), strict=True))
    return list(map(min, by_run)), list(map(max, by_run))


def summed(gains: Gains) -> dict[str, list[float]]:
    """Compute the values that the paper prints: least, largest or mean gain of the jobs of each kind of test.

    Only CPU-bound jobs count. `io_jobs_mean` is the mean gain of the I/O-bound jobs, if `gains` has any.
    """
    found: dict[str, list[float]] = {}
    of_cpu = {
        pattern: {
            (mix.name, name): gains[mix.name, name]
            for mix in MIXES
            for name in mix.cpu
            if mix.pattern == pattern and (mix.name, name) in gains
        }
        for pattern in TITLES
    }
    for pattern in ("balanced", "io"):
        if of_cpu[pattern]:
            found[f"{pattern}_least"], found[f"{pattern}_most"] = extremes(of_cpu[pattern])
    of_io = [each for (_, name), each in gains.items() if name in IO_JOBS]
    for key, jobs in (("cpu_mean", [*of_cpu["cpu"].values()]), ("io_jobs_mean", of_io)):
        if jobs:
            found[key] = [fmean(repeat) for repeat in zip(*jobs, strict=True)]
    return found


def draw_tests(figure: Figure, said: Values, measured: Measured) -> None:
    """Draw the times of all jobs under the policy FGCS and under YARN's policy.

    There is one panel for each kind of test.
    """
    took: Mapping[Job, list[list[float]]] = measured.series["took"]
    by_pattern = {
        pattern: [each for each in took for mix in MIXES if (mix.name, mix.pattern) == (each[0], pattern)]
        for pattern in TITLES
    }
    shown = {pattern: jobs for pattern, jobs in by_pattern.items() if jobs}
    axes = figure.subplots(len(shown), 1, squeeze=False)[:, 0]
    for ax, (pattern, jobs) in zip(axes, shown.items(), strict=True):
        groups = [f"{name}\n{mix.replace('-', ' + ')}" for mix, name in jobs]
        bars = zip(LEGENDS, zip(*(took[each] for each in jobs), strict=True), strict=False)
        mean_bars(ax, groups, [(*legend, list(times)) for legend, times in bars])
        ax.set_ylabel("job [s], before scale")
        ax.set_title(TITLES[pattern], loc="right", fontsize=8, color=PAPER)
        ax.tick_params(axis="x", labelsize=6)


# Figure 4's main result in live runs: the jobs Pi and TeraGen together, under YARN's policy and under FGCS.

TEST, JOB = "pi-teragen", "pi"


def headline(bench: Bench) -> Mapping[str, Any]:
    """Return the live scenario, in which FGCS uses demands that were measured in samples on the same nodes."""
    return plan(demands(samples(bench, live=True)))


def plan(profiles: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the live scenario with the jobs Pi and TeraGen.

    `profiles` are the CPU demands that the policy FGCS uses, by job name.
    """
    (mix,) = (each for each in MIXES if each.name == TEST)
    policies = [YARN, {"fgcs": {"profiles": profiles}}]
    return scenario(jobs_of(mix, live=True), policies, live=True)


def told_demands(found: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a sentence with the demands that the samples found, and Table 1's.

    The applications' CPU time, and so their demands, depends on the host's cores, for which the disk was not chosen.
    """
    shown = ", ".join(f"{name} {each['map']:g}% ({printed_demand(name):g}%)" for name, each in found.items())
    return f"Demands of maps that the samples found on this host's cores (Table 1): {shown}."


def gain(finished: FinishedRun) -> Sequence[float]:
    """Return by how many percent the time of the job Pi is shorter under FGCS than under YARN's policy.

    The result has one number per repeat.
    """
    return shorter(*job_lengths(finished, JOB))


EXPERIMENTS = (
    Experiment("fig2", fig2, draw_fig2, {"sim": 30, "process": 120}),
    Experiment("table1", table1, DRAW_TABLE1, {"sim": 1, "process": 180}, repeats=1, sim_repeats=1),
    Experiment(
        "tests", tests, draw_tests, {"sim": 120, "process": 1200}, sim_repeats=FEW_REPEATS, size=(7.2, 6.6)
    ),
    live_experiment(headline, gain, 500, lambda bench: told_demands(demands(samples(bench, live=True)))),
)
