"""Figure 2: the CPU load of a node that runs one TeraGen task on each of its cores."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from schedbed.deploy.papers import paper_file
from schedbed.deploy.papers.bench import Bench, FinishedRun
from schedbed.deploy.papers.experiment import Experiment, Measured, Values
from schedbed.deploy.papers.figures import OURS, PAPER, legend
from schedbed.deploy.papers.liu2015.eight_tests import CORES, DISK_BPS, job, scenario
from schedbed.deploy.results.metrics import RunTables, utilisation

if TYPE_CHECKING:
    from matplotlib.figure import Figure


FASTER = (2, 5)
"""Factors on the disk's rate, since a page cache of 24 GB may take part of the 16 GB at once."""


def measure(bench: Bench) -> Measured:
    """Measure the CPU load of a node with a TeraGen task on each core. Simulations also try faster disks."""
    finished = _run(bench, 1)
    loads, beside = _loads(finished), _cpu_beside(finished)
    values = {"load": loads, "idle": [100 - load for load in loads], "beside": beside}
    for factor in () if bench.live else FASTER:
        values[f"load_{factor}"] = _loads(_run(bench, factor))
    scale = finished.run.scenario["scale"]
    heartbeats = _during(finished.of(finished.policies[0], finished.run.repeats - 1)).heartbeats
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
        lasted_s = float((run.jobs["finish"] - run.jobs["submit"]).max()) / finished.run.scenario["scale"]
        (node,) = run.nodes
        used = utilisation(_during(run).heartbeats)["cpu"]
        written_gb = float(run.attempts["output_bytes"].sum()) / finished.run.scenario["scale"] / 1e9
        found.append((wanted - used) * node["cores"] * lasted_s / written_gb)
    return found


def _during(run: RunTables) -> RunTables:
    """Return the run's tables without the heartbeats that came after the end of the job."""
    heartbeats = run.heartbeats[run.heartbeats["t"] <= run.jobs["finish"].max()]
    return RunTables(run.policy, run.repeat, {**run.tables, "heartbeats": heartbeats}, run.nodes)


def draw(figure: Figure, said: Values, measured: Measured) -> None:
    """Draw the node's CPU load over time, and the paper's mean."""
    ax = figure.subplots()
    ax.step(measured.series["t"], measured.series["load"], where="pre", color=OURS, label="ours")
    ax.axhline(said["load"].number, color=PAPER, linestyle="--", label="paper, mean")
    ax.set(xlabel="time [s], before scale", ylabel="CPU load [%]", ylim=(0, 100), xlim=(0, None))
    ax.set_xlim(0, float(np.max(measured.series["t"])))
    legend(ax)


EXPERIMENT = Experiment(
    name="fig2", measure=measure, draw=draw, takes_s={"sim": 15, "process": 40}, repeats=3
)
