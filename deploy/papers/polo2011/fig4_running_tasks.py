"""Figure 4: each application's running tasks and the CPU use over time, under the policies Fair and RAS.

Fair runs at most 4 maps on a node at a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from schedbed.deploy.papers.bench import Bench
from schedbed.deploy.papers.experiment import Experiment, Measured, Values
from schedbed.deploy.papers.figures import legend
from schedbed.deploy.papers.polo2011.fig3_makespans import USUAL_SLOTS
from schedbed.deploy.papers.polo2011.nine_jobs import APPS, experiment1, slots
from schedbed.deploy.papers.polo2011.paper_cluster import size_of
from schedbed.deploy.results.measures.series import Intervals
from schedbed.deploy.results.metrics import RunTables, makespan, utilisation
from schedbed.deploy.results.plots import OKABE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

POINTS = 200  # points in time in the figure
APP_NAMES = tuple(dict.fromkeys(APPS.values()))


def measure(bench: Bench) -> Measured:
    """Measure the numbers of running tasks and the CPU use in the runs of Figure 3."""
    size = size_of(bench)
    finished = bench.run("experiment1", experiment1(size))
    policies = finished.policies[slots(size).index(USUAL_SLOTS)], finished.policies[-1]
    fair_runs, ras_runs = (finished.each(policy) for policy in policies)
    found: dict[str, list[float]] = {key: [] for key in ("fewer", "cpu_fair", "cpu_ras", "cpu_more")}
    for fair, ras in zip(fair_runs, ras_runs, strict=True):
        found["fewer"].append(_fewer(fair, ras))
        cpu = [100 * utilisation(run.heartbeats)["cpu"] for run in (fair, ras)]
        found["cpu_fair"].append(cpu[0])
        found["cpu_ras"].append(cpu[1])
        found["cpu_more"].append(cpu[1] - cpu[0])
    scale = finished.run.scenario["scale"]
    shown = {"Fair, 4 slots": over_time(fair_runs[-1], scale), "RAS": over_time(ras_runs[-1], scale)}
    return Measured(values=found, series={"runs": shown})


def _fewer(fair: RunTables, ras: RunTables) -> float:
    """Return the percentage of time in which RAS runs at most as many tasks as Fair.

    `fair` and `ras` are runs of the same jobs under the two policies. Both are compared from the first
    submission to the last job end under RAS. A policy whose jobs have all ended runs no tasks.
    """
    edges = np.linspace(0.0, makespan(ras.jobs)["all"], POINTS + 1) + ras.jobs["submit"].min()
    both = [_intervals(run).binned(None, edges) for run in (fair, ras)]
    return 100 * float(np.mean(both[1] <= both[0] + 1e-9))


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


def draw(figure: Figure, said: Values, measured: Measured) -> None:
    """Draw a column of charts per policy: running tasks of each application, and CPU use, over time."""
    runs = measured.series["runs"]
    axes = figure.subplots(len(APP_NAMES) + 1, len(runs), sharex=True, sharey="row", squeeze=False)
    for column, (name, run) in enumerate(runs.items()):
        for row, app in enumerate(APP_NAMES):
            ax = axes[row][column]
            ax.plot(run["t"], run[f"{app} maps"], color=OKABE[row], linewidth=0.9, label=f"{app}, maps")
            ax.plot(
                run["t"], run[f"{app} reduces"], color="black", linestyle=":", linewidth=0.9, label="reduces"
            )
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


EXPERIMENT = Experiment(
    name="fig4", measure=measure, draw=draw, takes_s={"sim": 15, "process": 5}, repeats=3, size=(7.2, 5.6)
)
