"""Simulates EASY and FCFS on a workload in SWF on several nodes: jobs start in the order of a reference."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from schedbed.cluster.virtual.latencies import Latencies
from schedbed.deploy.scenario.resolve import resolve
from schedbed.deploy.simulated.simulated_runs import setup_of
from schedbed.deploy.simulated.task_costs import costs_of
from schedbed.scheduler.core.rows import NoSink
from schedbed.scheduler.simulate.simulation import Simulation
from tests.scheduler.policies.test_easy import Rigid, reference

pytestmark = pytest.mark.long  # seconds


class Starts(NoSink):
    """A sink that keeps the start times of each job's maps."""

    def __init__(self) -> None:
        self.at_s: dict[int, list[float]] = {}

    def attempt(self, row: Any) -> None:
        self.at_s.setdefault(int(row.job[4:]) - 1, []).append(row.start)

    def job(self, row: Any) -> None: ...
    def heartbeat(self, row: Any) -> None: ...
    def block(self, row: Any) -> None: ...
    def fault(self, row: Any) -> None: ...


def drawn(seed: int) -> list[Rigid]:
    """Return thirty random jobs for sixteen processors, whose requested times exceed their run times."""
    luck, now, jobs = Random(seed), 0, []
    for _ in range(30):
        now += luck.randrange(10, 400)
        runs = luck.randrange(50, 1500)
        jobs.append(
            Rigid(now - 10, luck.choice((1, 2, 3, 5, 8, 12, 16)), runs, runs + luck.randrange(0, 1000))
        )
    return jobs


@pytest.mark.parametrize(("seed", "backfill"), [(1, True), (2, True), (3, False)])
def test_rigid_jobs_start_when_the_reference_starts_them(tmp_path: Path, seed: int, backfill: bool) -> None:
    jobs = drawn(seed)
    path = tmp_path / "log.swf"
    path.write_text(
        "; MaxNodes: 4\n; MaxProcs: 16\n"
        + "".join(
            f"{n} {j.submit} -1 {j.runs} {j.size} -1 -1 {j.size} {j.requested} -1 1 1 1 -1 1 -1 -1 -1\n"
            for n, j in enumerate(jobs)
        )
    )
    node = {"cores": 4, "core_speed": 1, "memory": "8GiB", "map_slots": 4, "reduce_slots": 0}
    scenario = resolve(
        {
            "cluster": {"nodes": 4, "node": node, "heartbeat": "200ms"},
            "workload": {"trace": str(path)},
            "policies": [{"easy": {"backfill": backfill}}],
        }
    )
    seen = Starts()
    Simulation(setup_of(scenario, scenario.policies[0], 0, costs_of(scenario), Latencies()), seen).run()
    zero = jobs[0].submit  # a trace begins with its first job
    expected = [start - zero for start in reference(jobs, 16, backfill=backfill)]
    found = [min(seen.at_s[n]) for n in range(len(jobs))]
    assert sorted(range(30), key=lambda n: (found[n], n)) == sorted(range(30), key=lambda n: (expected[n], n))
    assert found == pytest.approx(
        expected, abs=3.0
    )  # of hours: launches and heartbeats add up along a chain of jobs
    assert all(max(starts) - min(starts) < 0.3 for starts in seen.at_s.values()), "a gang starts together"
