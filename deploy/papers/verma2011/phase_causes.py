"""Causes of the reduce times in Table 1, and of the fourth wave of reduces in Figure 2.

A wave is a set of tasks that run at the same time, one in each slot.
"""

from __future__ import annotations

from typing import Any

from schedbed.deploy.papers.bench import Bench
from schedbed.deploy.papers.experiment import Experiment, Measured
from schedbed.deploy.papers.figures import draw_values
from schedbed.deploy.papers.verma2011.months import run_changed
from schedbed.deploy.papers.verma2011.table1_months import JOBS, averages, spread_of
from schedbed.deploy.papers.verma2011.waves import SLOTS, scenario, waves

SEEK = 0.1  # share of a disk's rate that each additional stream costs


def measure(bench: Bench) -> Measured:
    """Run Table 1's jobs on slower disks, and Figure 2's job with one replica of blocks.

    The slower disks seek between streams.
    """
    seeking = run_changed(bench, "seek", _seek)
    finished = bench.run("waves-single", _single_replica())
    return Measured(
        values={
            "spread_reduce_seek": spread_of([averages(seeking, job, "reduce") for job in JOBS]),
            "reduce_few_single": [float(waves(run, "reduce")) for run in finished.each("fifo")],
        }
    )


def _seek(plan: dict[str, Any]) -> None:
    node = plan["cluster"]["node"]
    node["disk"] = {"rate": node["disk"], "seek": SEEK}


def _single_replica() -> dict[str, Any]:
    """Return Figure 2's scenario with one replica of each block, as Hadoop's TeraSort writes its output."""
    plan = scenario(*SLOTS["few"], live=False)
    return {**plan, "blocks": {**plan["blocks"], "replication": 1}}


EXPERIMENT = Experiment(name="causes", measure=measure, draw=draw_values, takes_s={"sim": 60}, repeats=10)
