"""Causes of the reduce times in Table 1, and of the fourth wave of reduces in Figure 2.

A wave is a set of tasks that run at the same time, one in each slot.
"""

from __future__ import annotations

from typing import Any

from schedbed.deploy.papers.bench import Bench
from schedbed.deploy.papers.experiment import Experiment, Measured
from schedbed.deploy.papers.figures import draw_values
from schedbed.deploy.papers.verma2011.table1_months import JOBS, averages, run_changed, spread_of
from schedbed.deploy.papers.verma2011.waves import SLOTS, scenario, waves

WRITTEN = {"cpu": "17s", "write": "120MB", "variance": 0.1}
"""A reduce that writes more than twice as much as in `months`, and computes 2 s less; 0.37 of its input are 500 MB."""


def measure(bench: Bench) -> Measured:
    """Run Table 1's jobs with reduces that write more, and Figure 2's job with one replica of blocks."""
    writing = run_changed(bench, "write", _write_more)
    finished = bench.run("waves-single", _single_replica())
    return Measured(
        values={
            "spread_reduce_write": spread_of([averages(writing, job, "reduce") for job in JOBS]),
            "reduce_few_single": [float(waves(run, "reduce")) for run in finished.each("fifo")],
        }
    )


def _write_more(plan: dict[str, Any]) -> None:
    for job in plan["workload"]["jobs"]:
        job["reduce"] = dict(WRITTEN)


def _single_replica() -> dict[str, Any]:
    """Return Figure 2's scenario with one replica of each block, as Hadoop's TeraSort writes its output."""
    plan = scenario(*SLOTS["few"], live=False)
    return {**plan, "blocks": {**plan["blocks"], "replication": 1}}


EXPERIMENT = Experiment(name="causes", measure=measure, draw=draw_values, takes_s={"sim": 60}, repeats=10)
