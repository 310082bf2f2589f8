"""Causes of the shuffle and reduce times in Table 1, and of the fourth wave of reduces in Figure 2.

A wave is a set of tasks that run at the same time, one in each slot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from schedbed.deploy.papers.bench import Bench
from schedbed.deploy.papers.experiment import Experiment, Measured, Values
from schedbed.deploy.papers.figures import beside_paper
from schedbed.deploy.papers.verma2011.months import run_changed
from schedbed.deploy.papers.verma2011.table1_months import JOBS, averages, spread_of
from schedbed.deploy.papers.verma2011.waves import SLOTS, scenario, waves

if TYPE_CHECKING:
    from matplotlib.figure import Figure

POLL = "5s"
"""Time until a reduce knows of the last map outputs; `months` uses Hadoop 1's value of 1 s."""
SEEK = 0.1  # share of a disk's rate that each additional stream costs

Found = dict[str, list[float]]


def measure(bench: Bench) -> Measured:
    """Run Table 1's jobs with slower polls and on slower disks, and Figure 2's job with one replica of blocks.

    A poll is a reduce's request for the list of new map outputs. The slower disks seek between streams.
    """
    polled, seeking = run_changed(bench, "poll", _poll), run_changed(bench, "seek", _seek)
    first = [averages(polled, job, "first_shuffle") for job in JOBS]
    found: Found = {f"first_shuffle_{job}_poll": mine for job, mine in zip(JOBS, first, strict=True)}
    found["spread_first_shuffle_poll"] = spread_of(first)
    found["spread_reduce_seek"] = spread_of([averages(seeking, job, "reduce") for job in JOBS])
    finished = bench.run("waves-single", _single_replica())
    found["reduce_few_single"] = [float(waves(run, "reduce")) for run in finished.each("fifo")]
    return Measured(values=found)


def _poll(plan: dict[str, Any]) -> None:
    plan["framework"]["hadoop1"]["fetch_poll"] = POLL


def _seek(plan: dict[str, Any]) -> None:
    node = plan["cluster"]["node"]
    node["disk"] = {"rate": node["disk"], "seek": SEEK}


def _single_replica() -> dict[str, Any]:
    """Return Figure 2's scenario with one replica of each block, as Hadoop's TeraSort writes its output."""
    plan = scenario(*SLOTS["few"], live=False)
    return {**plan, "blocks": {**plan["blocks"], "replication": 1}}


def draw(figure: Figure, said: Values, measured: Measured) -> None:
    """Draw the durations of first shuffles with slower polls for map outputs, next to the paper's."""
    keys = [f"first_shuffle_{job}_poll" for job in JOBS]
    ax = figure.subplots()
    beside_paper(ax, JOBS, keys, said, measured)
    ax.set(ylabel="average first shuffle [s]")


EXPERIMENT = Experiment(
    name="causes", measure=measure, draw=draw, takes_s={"sim": 60}, repeats=3, sim_repeats=5
)
