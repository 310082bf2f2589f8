"""Tables 1 and 2 and Figures 2 to 6 with the policy RAS, and the main result in live runs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import inf
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from schedbed.deploy.papers.bench import Bench, FinishedRun
from schedbed.deploy.papers.experiment import FEW_REPEATS, Experiment, Measured, Values, by_repeat
from schedbed.deploy.papers.figures import OURS, PAPER, Panel, intervals, legend, panels
from schedbed.deploy.papers.live_and_simulated import live_experiment
from schedbed.deploy.papers.polo2011.nine_jobs import (
    APPS,
    FULL,
    JOBS,
    Size,
    experiment1,
    experiment2,
    fair_spec,
    goals,
    job,
    jobs,
    longer,
    ras,
    said,
    scenario,
    size_of,
    slots,
)
from schedbed.deploy.papers.verdict import Exact
from schedbed.deploy.results.measures.series import Intervals
from schedbed.deploy.results.metrics import RunTables, makespan, useful, utilisation
from schedbed.deploy.results.plots import DASHES, OKABE
from schedbed.scheduler.history import read_table
from schedbed.scheduler.models.ras_placement import map_utility, reduce_utility

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

USUAL_SLOTS = 4  # the best number in the paper
POINTS = 200  # points in time in figures
LIVE_REPEATS = 2  # for each seed; one takes eleven minutes


# Figure 2: a job's utility as a function of its numbers of map slots and reduce slots. The utility is a number
# with which the policy RAS compares the slots of a job with the number of slots with which the job meets its
# goal.

REQUIRED, MAPS, REDUCES = 20, 35, 10


def fig2(bench: Bench) -> Measured:
    """Compute the utility of the job in Figure 2 for each number of map slots and number of reduce slots."""
    surface = [[utility(maps, reduces) for reduces in range(REDUCES + 1)] for maps in range(MAPS + 1)]
    found = {
        "required": surface[REQUIRED][REDUCES],
        "all": surface[MAPS][REDUCES],
        "no_reduce": surface[MAPS][REDUCES] - surface[MAPS][0],
        "falls": float(_falls(surface)),
        "none": float(all(value == -inf for value in surface[0])),
    }
    values = {key: Exact(value=value) for key, value in found.items()}
    return Measured(values=values, series={"surface": surface})


def utility(maps: int, reduces: int) -> float:
    """Return the utility of Figure 2's job when the job has `maps` map slots and `reduces` reduce slots.

    The formula is equation 1 of the paper.
    """
    return map_utility(maps, REQUIRED, MAPS) + reduce_utility(reduces, REDUCES)


def _falls(surface: list[list[float]]) -> int:
    """Return how many times the utility becomes lower when a job receives one more map slot or reduce slot.

    `surface` has a row for each number of map slots and a column for each number of reduce slots.
    """
    grid = np.array(surface[1:])
    return int((np.diff(grid, axis=0) < 0).sum() + (np.diff(grid, axis=1) < 0).sum())


def draw_fig2(figure: Figure, said: Values, measured: Measured) -> None:
    """Draw the utilities as a contour plot. The contour of utility 0 is black."""
    ax = figure.subplots()
    grid = np.array(measured.series["surface"][1:])
    reduces, maps = np.meshgrid(np.arange(REDUCES + 1), np.arange(1, MAPS + 1))
    filled = ax.contourf(reduces, maps, grid, levels=np.linspace(-2, 1, 13), cmap="cividis")
    ax.contour(reduces, maps, grid, levels=[0.0], colors="black", linewidths=1.2)
    figure.colorbar(filled, ax=ax, label="utility (black: 0)")
    ax.set(xlabel="reduce slots", ylabel="map slots")


# Tables 1 and 2: the time that each job takes alone, and the share of a node that its maps use.

LARGEST = {"sort": "J1", "combine": "J7", "select": "J3"}
FEW_SLOTS = 2
EXCHANGED = ("J3", "J4")
GAP = 2.0  # The gap between submissions is GAP times the printed duration, plus GAP_S seconds.
GAP_S = 300.0


def table1(bench: Bench) -> Measured:
    """Run each job alone on the cluster, and measure the time it takes and the share of a node it uses.

    J3 and J4 also run with the input sizes as printed, which seem to be exchanged.
    """
    size = size_of(bench)
    alone = jobs_apart(size, JOBS)
    finished = bench.run("alone", scenario(alone, [fair_spec(USUAL_SLOTS), fair_spec(FEW_SLOTS)], size))
    as_printed = jobs_apart(size, EXCHANGED, printed=True)
    again = bench.run("alone_printed", scenario(as_printed, [fair_spec(USUAL_SLOTS)], size))
    scale = finished.scale
    usual, few = (finished.each(policy) for policy in finished.policies)
    found = by_repeat(
        {
            **{f"{name}_alone": took_s / scale for name, took_s in lengths(run).items()},
            **{f"{name}_printed": took_s / scale for name, took_s in lengths(printed).items()},
            **_uses({USUAL_SLOTS: run, FEW_SLOTS: other}),
        }
        for run, other, printed in zip(usual, few, again.each(finished.policies[0]), strict=True)
    )
    return Measured(values=found)


def _uses(by_slots: Mapping[int, RunTables]) -> dict[str, float]:
    """Return the shares that maps use, for each application with the slots that suit it best."""
    found: dict[str, float] = {}
    for app, largest in LARGEST.items():
        best = min(by_slots, key=lambda each, largest=largest: lengths(by_slots[each])[largest])
        found |= uses(by_slots[best], app, best)
    return found


def jobs_apart(size: Size, names: Sequence[str], *, printed: bool = False) -> list[dict[str, Any]]:
    """Return the jobs `names` as in a scenario file, each submitted when the earlier jobs must have ended.

    With `printed`, J3 and J4 have the input sizes printed in Table 1.
    """
    submits_s, now_s = {}, 0.0
    for name in JOBS:
        submits_s[name] = now_s
        now_s += GAP * said()[f"{name}_alone"].number + GAP_S
    return [job(name, submits_s[name], None, size, printed=printed) for name in names]


def lengths(run: RunTables) -> Mapping[str, float]:
    """Return the time in s from submission to end of each job, by job name."""
    return dict(zip(run.jobs["name"], run.jobs["finish"] - run.jobs["submit"], strict=True))


def uses(run: RunTables, app: str, slots: int) -> Mapping[str, float]:
    """Return the percentages of a node's CPU and disk that one map of the application `app` uses.

    While the maps of the application's largest job run, the use of the whole node (including the shuffle) is
    measured and divided by the number of map slots, as in section 3.6.
    """
    ids = dict(zip(run.jobs["name"], run.jobs["job"], strict=True))
    attempts = useful(run.attempts[run.attempts["job"] == ids[LARGEST[app]]])
    maps = attempts[attempts["kind"] == "map"]
    times = run.heartbeats["t"]
    used = utilisation(run.heartbeats[(times > maps["start"].min()) & (times <= maps["end"].max())])
    return {f"{app}_map_cpu": 100 * used["cpu"] / slots, f"{app}_map_io": 100 * used["disk"] / slots}


USES = {f"{app}\n{each}": f"{app}_map_{each}" for app in LARGEST for each in ("cpu", "io")}
DRAW_TABLE1 = panels(
    Panel({name: f"{name}_alone" for name in JOBS}, "length alone [s], before scale"),
    Panel(USES, "a map uses [% of a node]"),
)


# Figure 3: the makespans under the policies Fair, with 1 to 8 map slots per node, and RAS.


def fig3(bench: Bench) -> Measured:
    """Run the policies Fair and RAS on the same jobs, and compare their makespans in each repeat."""
    size = size_of(bench)
    finished = bench.run("experiment1", experiment1(size))
    ras, tried = finished.policies[-1], slots(size)
    fair_s, ras_s = makespans(finished)
    repeats = list(zip(*fair_s, strict=True))
    usual_s, best_s = fair_s[tried.index(USUAL_SLOTS)], [min(each) for each in repeats]
    return Measured(
        values={
            "ras_makespan": ras_s,
            "fair_makespan": best_s,
            "best_slots": [float(tried[each.index(min(each))]) for each in repeats],
            "gain_least": longer(best_s, ras_s),
            "gain_most": longer([max(each) for each in repeats], ras_s),
            "overcommitted": longer(fair_s[-1], usual_s),
            "concurrency": finished.figures(ras, "concurrency"),
            **durations(finished.each(ras), finished.scale),
        },
        series={"slots": tried, "fair": fair_s, "ras": ras_s},
    )


def makespans(finished: FinishedRun) -> tuple[list[list[float]], list[float]]:
    """Return the makespans in s under Fair, one list per number of slots, and those under RAS, the last policy.

    Each list has one number per repeat. Times are divided by the scale, which shortens live runs.
    """
    scale = finished.scale
    *fair_s, ras_s = (
        [each / scale for each in finished.figures(policy, "makespan_s")] for policy in finished.policies
    )
    return fair_s, ras_s


def durations(runs: Sequence[RunTables], scale: float) -> dict[str, list[float]]:
    """Return the time in s from each job's submission to its end, by job name, with one number per run.

    Times are divided by `scale`, the factor by which live runs are shortened.
    """
    return by_repeat({name: float(took_s) / scale for name, took_s in lengths(run).items()} for run in runs)


def draw_fig3(figure: Figure, said: Values, measured: Measured) -> None:
    """Draw the makespan of the policy Fair for each number of map slots, with lines for RAS and the paper."""
    ax = figure.subplots()
    tried, fair_s, ras_s = (measured.series[key] for key in ("slots", "fair", "ras"))
    ax.bar([str(each) for each in tried], [fmean(each) for each in fair_s], 0.6, color=OURS, label="Fair")
    intervals(ax, fair_s)
    ax.axhline(fmean(ras_s), color=OKABE[5], label="RAS")
    for key, label, dash in (("ras_makespan", "RAS, paper", "--"), ("fair_makespan", "Fair 4, paper", ":")):
        ax.axhline(said[key].number, color=PAPER, linestyle=dash, label=label)
    ax.set(xlabel="map slots a node under Fair", ylabel="makespan [s], before scale")
    legend(ax)


# Figure 4: each application's running tasks and the CPU use over time, under the policies Fair and RAS. Fair
# runs at most 4 maps on a node at a time.

APP_NAMES = tuple(dict.fromkeys(APPS.values()))


def fig4(bench: Bench) -> Measured:
    """Measure the numbers of running tasks and the CPU use in the runs of Figure 3."""
    size = size_of(bench)
    finished = bench.run("experiment1", experiment1(size))
    policies = finished.policies[slots(size).index(USUAL_SLOTS)], finished.policies[-1]
    fair_runs, ras_runs = (finished.each(policy) for policy in policies)
    scale = finished.scale
    shown = {"Fair, 4 slots": over_time(fair_runs[-1], scale), "RAS": over_time(ras_runs[-1], scale)}
    return Measured(values=by_repeat(map(_beside, fair_runs, ras_runs)), series=shown)


def _beside(fair: RunTables, ras: RunTables) -> Mapping[str, float]:
    """Return how tasks and CPU under RAS compare with those under Fair, in runs of the same jobs.

    `fewer` is the percentage of time in which RAS runs at most as many tasks as Fair. Both are compared from
    the first submission to the last job end under RAS. A policy whose jobs have all ended runs no tasks.
    """
    edges = np.linspace(0.0, makespan(ras.jobs)["all"], POINTS + 1) + ras.jobs["submit"].min()
    fair_tasks, ras_tasks = (_intervals(run).binned(None, edges) for run in (fair, ras))
    fair_cpu, ras_cpu = (100 * utilisation(run.heartbeats)["cpu"] for run in (fair, ras))
    return {
        "fewer": 100 * float(np.mean(ras_tasks <= fair_tasks + 1e-9)),
        "cpu_fair": fair_cpu,
        "cpu_ras": ras_cpu,
        "cpu_more": ras_cpu - fair_cpu,
    }


def _intervals(run: RunTables, kind: str | None = None) -> Intervals:
    """Return the time intervals of the run's attempts, labeled with the names of their applications.

    `kind` (`map` or `reduce`) selects the attempts; None selects all.
    """
    apps = run.jobs.set_index("job")["name"].map(APPS)
    attempts = run.attempts if kind is None else run.attempts[run.attempts["kind"] == kind]
    return Intervals.of(attempts, attempts["job"].map(apps).to_numpy(str), run.end_s)


def over_time(run: RunTables, scale: float) -> Mapping[str, np.ndarray]:
    """Return time series of a run: the running maps and reduces of each application, and the CPU use.

    The CPU use has two series, the mean over nodes and the standard deviation, in percent. The key `t` has
    the times in s, divided by `scale`, the factor by which live runs are shortened.
    """
    edges = np.linspace(0.0, run.end_s, POINTS + 1)
    found: dict[str, Any] = {"t": (edges[:-1] + edges[1:]) / 2 / scale}
    for kind in ("map", "reduce"):
        for app in APP_NAMES:
            found[f"{app} {kind}s"] = _intervals(run, kind).binned(app, edges)
    heartbeats = run.heartbeats
    where = np.clip(np.searchsorted(edges, heartbeats["t"], side="right") - 1, 0, POINTS - 1)
    used = 100 * heartbeats["cpu_util"].groupby([where, heartbeats["node"]]).mean().unstack()
    # A heartbeat's values hold for the time since the previous heartbeat.
    used = used.reindex(range(POINTS)).bfill()
    found["cpu"], found["cpu_deviation"] = used.mean(axis=1).to_numpy(), used.std(axis=1, ddof=0).to_numpy()
    return found


def draw_fig4(figure: Figure, said: Values, measured: Measured) -> None:
    """Draw a column of charts per policy: running tasks of each application, and CPU use, over time."""
    runs = measured.series
    axes = figure.subplots(len(APP_NAMES) + 1, len(runs), sharex=True, sharey="row", squeeze=False)
    for column, (name, run) in enumerate(runs.items()):
        for row, app in enumerate(APP_NAMES):
            ax, reduces = axes[row][column], run[f"{app} reduces"]
            ax.plot(run["t"], run[f"{app} maps"], color=OKABE[row], linewidth=0.9, label=f"{app}, maps")
            ax.plot(run["t"], reduces, color="black", linestyle=":", linewidth=0.9, label="reduces")
            legend(ax)
        bottom = axes[-1][column]
        low, high = (run["cpu"] + sign * run["cpu_deviation"] for sign in (-1, 1))
        bottom.fill_between(run["t"], low, high, color=OKABE[3], alpha=0.3, linewidth=0)
        bottom.plot(run["t"], run["cpu"], color=OKABE[3], linewidth=0.9, label="mean, deviation of nodes")
        legend(bottom)
        bottom.set_xlabel(f"time [s], before scale: {name}")
    for row in range(len(APP_NAMES)):
        axes[row][0].set_ylabel("running tasks")
    axes[-1][0].set_ylabel("CPU [%]")


# Figure 5: the utilities that the policy RAS computes for the jobs over time, as recorded in its decisions.
# The utility compares the slots of a job with the number of slots with which the job meets its goal.

_SHARE = re.compile(r"utility (?P<utility>-?(?:inf|[\d.]+)):.*cycle at (?P<cycle>[\d.]+) s")


def fig5(bench: Bench) -> Measured:
    """Measure the utilities of the jobs over time under the policy RAS, in the runs of Figure 3."""
    finished = bench.run("experiment1", experiment1(size_of(bench)))
    shown = [utilities(finished, finished.policies[-1], repeat) for repeat in range(bench.repeats)]
    return Measured(values=by_repeat(map(_balance, shown)), series={"utilities": shown[-1]})


def _balance(utilities: pd.DataFrame) -> Mapping[str, float]:
    by_job = utilities.groupby("name")["utility"]
    cycles = utilities.groupby("t")["utility"].agg(["min", "max", "count"])
    several = cycles[cycles["count"] > 1]
    return {
        "satisfied": 100 * float((utilities["utility"] >= 0).mean()),
        "rises": float((by_job.last() > by_job.median()).sum()),
        "spread": float((several["max"] - several["min"]).median()),
    }


def utilities(finished: FinishedRun, policy: str, repeat: int) -> pd.DataFrame:
    """Return the utility of each job over time, as the policy RAS recorded it with its decisions.

    RAS decides in cycles. The table has a row for each job and each cycle with a decision about the job. The
    columns are `t` (begin of the cycle in s, divided by the scenario's scale), `name` and `utility`.
    """
    decisions = read_table(finished.folders[repeat], "decisions", (policy, 0))
    told = decisions["reason"].str.extract(_SHARE).astype(float)
    names = finished.of(policy, repeat).jobs.set_index("job")["name"]
    found = pd.DataFrame(
        {
            "t": told["cycle"] / finished.scale,
            "name": decisions["job"].map(names),
            "utility": told["utility"],
        }
    )
    return found.dropna().drop_duplicates(["t", "name"]).sort_values("t", ignore_index=True)


def _job_lines(ax: Axes, over_time: Mapping[str, tuple[Any, Any]]) -> None:
    """Draw a line for each job in `over_time`, a dictionary from names to times and values."""
    for number, (name, (times_s, values)) in enumerate(over_time.items()):
        shade, dash = OKABE[number % len(OKABE)], DASHES[number // len(OKABE)]
        ax.plot(times_s, values, dash, color=shade, linewidth=0.9, label=name)


def _utility_lines(ax: Axes, found: pd.DataFrame) -> None:
    """Draw the utility of each job over time as a line. Values of minus infinity are not shown."""
    by_job = {name: found[found["name"] == name] for name in JOBS}
    _job_lines(
        ax, {name: (one["t"], one["utility"].replace(-np.inf, np.nan)) for name, one in by_job.items()}
    )
    ax.axhline(0, color=PAPER, linewidth=0.6)
    ax.set(xlabel="time [s], before scale", ylabel="utility", ylim=(-1.05, 1.05))


def draw_fig5(figure: Figure, said: Values, measured: Measured) -> None:
    """Draw the utilities of the jobs over time."""
    ax = figure.subplots()
    _utility_lines(ax, measured.series["utilities"])
    legend(ax)


# Figure 6 and Table 1: the nine jobs under the policy RAS with tight completion goals (Experiment 2).


def fig6(bench: Bench) -> Measured:
    """Measure the completion times and utilities of jobs with goals, and compare with jobs without goals."""
    size = size_of(bench)
    relaxed = bench.run("experiment1", experiment1(size))
    tight = bench.run("experiment2", experiment2(size))
    scale, ras = tight.scale, tight.policies[0]
    mine, before = (durations(finished.each(finished.policies[-1]), scale) for finished in (tight, relaxed))
    fair_s, _ = makespans(relaxed)
    _, last_s = makespans(tight)
    found = by_repeat(
        compared(*({name: of[name][repeat] for name in JOBS} for of in (mine, before)))
        for repeat in range(bench.repeats)
    )
    found["gain"] = longer(list(map(min, zip(*fair_s, strict=True))), last_s)
    last = bench.repeats - 1
    series = {"utilities": utilities(tight, ras, last), "maps": _maps(tight.of(ras, last), scale)}
    return Measured(values=found, series=series)


def compared(mine: Mapping[str, float], before: Mapping[str, float]) -> dict[str, float]:
    """Return the values of Figure 6, such as the number of goals met, by key in paper.yaml.

    `mine` has the durations in s of the jobs with goals, and `before` those of the jobs without goals.
    """
    due = goals(tight=True)
    return {
        **mine,
        "met": float(sum(mine[name] <= due[name] for name in JOBS)),
        "met_relaxed": float(sum(before[name] <= due[name] for name in JOBS)),
        "worst": 100 * max(mine[name] / due[name] - 1 for name in JOBS),
        "J1_earlier": before["J1"] - mine["J1"],
        "J8_earlier": before["J8"] - mine["J8"],
        "J7_later": mine["J7"] - before["J7"],
    }


def _maps(run: RunTables, scale: float) -> Mapping[str, tuple[np.ndarray, np.ndarray]]:
    """Return times, and the number of running maps of each job at these times, by job name.

    The times in s are divided by `scale`, the factor by which live runs are shortened.
    """
    times_s = np.linspace(0.0, run.jobs["finish"].max(), POINTS)
    found = {}
    for job_id, name in zip(run.jobs["job"], run.jobs["name"], strict=True):
        maps = run.attempts[(run.attempts["job"] == job_id) & (run.attempts["kind"] == "map")]
        began, ended = np.sort(maps["assigned"]), np.sort(maps["end"])
        running = np.searchsorted(began, times_s, "right") - np.searchsorted(ended, times_s, "right")
        found[name] = (times_s / scale, running)
    return found


def draw_fig6(figure: Figure, said: Values, measured: Measured) -> None:
    """Draw the running maps and the utility of each job over time."""
    upper, lower = figure.subplots(2, 1, sharex=True)
    maps = measured.series["maps"]
    _job_lines(upper, {name: maps[name] for name in JOBS})
    upper.set_ylabel("running maps")
    legend(upper)
    _utility_lines(lower, measured.series["utilities"])


# Figure 3's main result in live runs on three nodes: the policies Fair (one map slot per node) and RAS.

LIVE_SIZE = Size(3, 0.04, live=True)
WORST_SLOTS = 1


def plan(bench: Bench) -> Mapping[str, Any]:
    """Return the live scenario: Experiment 1 with less work per node and with shorter gaps between jobs.

    In Experiment 1, nine jobs run without tight completion goals.
    """
    sooner = LIVE_SIZE.part * FULL.nodes / LIVE_SIZE.nodes
    mine = [
        {**each, "submit": f"{sooner * float(each['submit'].removesuffix('s'))}s"} for each in jobs(LIVE_SIZE)
    ]
    return scenario(mine, [fair_spec(WORST_SLOTS), ras(LIVE_SIZE.core_speed)], LIVE_SIZE)


def gain(finished: FinishedRun) -> Sequence[float]:
    """Return by how many percent the makespan is longer under the policy Fair than under RAS.

    The result has one number per repeat.
    """
    fair_s, ras_s = (finished.figures(policy, "makespan_s") for policy in finished.policies)
    return longer(fair_s, ras_s)


EXPERIMENTS = (
    Experiment("fig2", fig2, draw_fig2, {"sim": 1, "process": 1}, repeats=1, sim_repeats=1),
    Experiment(
        "table1",
        table1,
        DRAW_TABLE1,
        {"sim": 60, "process": 1700},
        repeats=1,
        sim_repeats=FEW_REPEATS,
        size=(7.2, 3.2),
    ),
    Experiment(
        "fig3",
        fig3,
        draw_fig3,
        {"sim": 110, "process": 3500},
        repeats=LIVE_REPEATS,
        sim_repeats=FEW_REPEATS,
        full_repeats=1,
    ),
    Experiment(
        "fig4",
        fig4,
        draw_fig4,
        {"sim": 1, "process": 5},
        repeats=LIVE_REPEATS,
        sim_repeats=FEW_REPEATS,
        size=(7.2, 5.6),
    ),
    Experiment(
        "fig5", fig5, draw_fig5, {"sim": 1, "process": 5}, repeats=LIVE_REPEATS, sim_repeats=FEW_REPEATS
    ),
    Experiment(
        "fig6",
        fig6,
        draw_fig6,
        {"sim": 15, "process": 700},
        repeats=LIVE_REPEATS,
        sim_repeats=FEW_REPEATS,
        full_repeats=1,
        size=(6.4, 4.6),
    ),
)
LIVE = live_experiment(plan, gain, 650)
