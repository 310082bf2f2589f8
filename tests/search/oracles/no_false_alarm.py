"""The referee of results must find nothing impossible in what the simulator did, whatever the story."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from schedbed.deploy.results.referee import Referee
from schedbed.deploy.results.runfile import RunFile, RunRecord
from schedbed.deploy.scenario.resolved import job_json
from schedbed.scheduler.history import frame
from schedbed.tasks.specs import TaskKind
from tests.search.violation import hold


def check_referee(sim: Any, rows: Any) -> None:
    """Judge the rows with the plan of the simulation's setup, and the true costs of its tasks."""
    setup = sim.setup
    run = RunFile(
        scenario={
            "cluster": {"nodes": [asdict(node) for node in setup.cluster.nodes]},
            "jobs": [_with_costs(setup.costs, job, sim.jobs) for job in setup.jobs],
            "framework": asdict(setup.framework),
            "simulate": {"contention": setup.contention, "costs": "trace"},
        },
        policies=["any"],
        repeats=1,
        seed=0,
        machines="sim",
        jobs=[job.job for job in setup.jobs],
    )
    record = RunRecord(policy="any", repeat=0, epoch_s=0.0, state="succeeded", findings=sim.master.report())
    tables = {"jobs": frame("jobs", rows.jobs), "attempts": frame("attempts", rows.attempts)}
    lines = Referee(run).impossible(record, {**tables, "heartbeats": frame("heartbeats", [])})
    hold(not lines, "nothing that was simulated is impossible", lines)


def _with_costs(costs: Any, job: Any, placed: Any) -> dict[str, Any]:
    spec = next(each for each in placed if each.job == job.job)
    found = job_json(job)
    for kind, count, key, cost in (
        (TaskKind.MAP, job.maps, "map_costs", costs.map_cost),
        (TaskKind.REDUCE, job.reduces, "reduce_costs", costs.reduce_cost),
    ):
        del kind
        each = [cost(spec, index) for index in range(count)]
        found[key] = [
            {
                "cpu_s": one.cpu_s,
                "read_bytes": one.read_bytes,
                "write_bytes": 0,
                "duration_s": one.duration_s,
            }
            for one in each
        ]
    return found
