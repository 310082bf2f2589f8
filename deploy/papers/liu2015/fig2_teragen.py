"""Figure 2: how much of its CPU a node uses while TeraGen has a task on each of its cores."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from schedbed.deploy.papers.bench import Bench
from schedbed.deploy.papers.experiment import Experiment, Measured, Values
from schedbed.deploy.papers.figures import OURS, PAPER, legend
from schedbed.deploy.papers.liu2015.eight_tests import CORES, job, scenario
from schedbed.deploy.results.metrics import RunTables, utilisation

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def measure(bench: Bench) -> Measured:
    """One node, a task for each core, all at once."""
    asked = scenario([job("teragen", CORES)], ["fair"], live=bench.live)
    one = {"nodes": 1} | {key: value for key, value in asked["cluster"].items() if key != "nodes"}
    played = bench.play("fig2", {**asked, "cluster": one, "blocks": {**asked["blocks"], "replication": 1}})
    runs = played.each(played.policies[0])
    loads = [100 * utilisation(_during(run).heartbeats)["cpu"] for run in runs]
    scale = played.run.scenario["scale"]
    beats = _during(runs[-1]).heartbeats
    shown = {"t": beats["t"].to_numpy() / scale, "load": 100 * beats["cpu_util"].to_numpy()}
    return Measured(
        values={"load": loads, "idle": [100 - load for load in loads]},
        series=shown,
        notes=[
            "All eight wait for one disk here. The paper's node could keep most of the 16 GB in the page cache of its "
            "24 GB of memory, so that its disk held its cores up less."
        ],
    )


def _during(run: RunTables) -> RunTables:
    """Only the heartbeats while the job ran."""
    beats = run.heartbeats[run.heartbeats["t"] <= run.jobs["finish"].max()]
    return RunTables(run.policy, run.repeat, {**run.tables, "heartbeats": beats}, run.nodes)


def draw(figure: Figure, said: Values, measured: Measured) -> None:
    """The load over time."""
    ax = figure.subplots()
    ax.step(measured.series["t"], measured.series["load"], where="pre", color=OURS, label="ours")
    ax.axhline(said["load"].number, color=PAPER, linestyle="--", label="paper, mean")
    ax.set(xlabel="time [s], before scale", ylabel="CPU load [%]", ylim=(0, 100), xlim=(0, None))
    ax.set_xlim(0, float(np.max(measured.series["t"])))
    legend(ax)


EXPERIMENT = Experiment(
    name="fig2", measure=measure, draw=draw, takes_s={"sim": 10, "process": 40}, repeats=3, quick=True
)
