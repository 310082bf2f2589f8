"""Simulates real traces, which are kept outside the repository, to the end. Skipped without these traces."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from schedbed.cluster.virtual.latencies import Latencies
from schedbed.deploy.scenario.resolve import resolve
from schedbed.deploy.simulated.simulated_runs import setup_of
from schedbed.deploy.simulated.task_costs import costs_of
from schedbed.scheduler.core.rows import NoSink
from schedbed.scheduler.simulate.simulation import Simulation

TRACES = Path(os.environ.get("SCHEDBED_TRACES", "../shared/traces")).resolve()
pytestmark = pytest.mark.skipif(
    not TRACES.is_dir(), reason=f"no traces at {TRACES} (SCHEDBED_TRACES names another place)"
)
POLICIES = ["fifo", "fair", {"delay": {"node_wait": "15s"}}]
NODE = {"cores": 4, "core_speed": 1, "memory": "8GiB", "disk": "200MB/s", "network": "1Gbit/s"}
NODE |= {"map_slots": 4, "reduce_slots": 2}


class Ended(NoSink):
    """A sink that keeps the number of ended jobs by state, and the tasks that succeeded."""

    def __init__(self) -> None:
        self.jobs: dict[str, int] = {}
        self.tasks: set[str] = set()

    def job(self, row: Any) -> None:
        self.jobs[row.state] = self.jobs.get(row.state, 0) + 1

    def attempt(self, row: Any) -> None:
        if row.state == "succeeded":
            self.tasks.add(row.task)

    def heartbeat(self, row: Any) -> None: ...

    def block(self, row: Any) -> None: ...

    def fault(self, row: Any) -> None: ...


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("swim/FB-2009_samples_24_times_1hr_0_first50jobs.tsv", {"traced_nodes": 600}),
        ("swim/FB-2010_samples_24_times_1hr_0.tsv", {"traced_nodes": 3000, "select": {"jobs": 200}}),
        ("hadoop-gridmix/trace_7m.json.gz", {}),
        ("hadoop-gridmix/wordcount.json", {}),
        ("hadoop-rumen/zombie_input-trace.json", {}),
        ("hadoop-sls/inputsls.json", {}),
        (
            "yarn-jhist/job_1329348432655_0001-1329348443227-user-Sleep+job-1329348468601-10-1-SUCCEEDED-default.jhist",
            {},
        ),
        ("yarn-jhist/job_2.0.3-alpha-FAILED.jhist", {}),
        ("swf/NASA-iPSC-1993-3.first-records.swf", {}),
        pytest.param("alibaba-2018/jobs.csv", {"select": {"jobs": 20}}, marks=pytest.mark.long),
    ],
)
def test_every_job_of_a_trace_ends_under_each_policy(name: str, more: dict[str, Any]) -> None:
    values = {
        "cluster": {"nodes": 20, "racks": 2, "node": NODE, "heartbeat": "3s"},
        "blocks": {"size": "256MiB", "replication": 2},
        "workload": {"trace": str(TRACES / name), **more},
        "policies": POLICIES,
    }
    scenario = resolve(values)
    for choice in scenario.policies:
        ended = Ended()
        Simulation(setup_of(scenario, choice, 0, costs_of(scenario), Latencies()), ended).run()
        assert ended.jobs == {"succeeded": len(scenario.jobs)}
        assert len(ended.tasks) == sum(job.maps + job.reduces for job in scenario.jobs)
