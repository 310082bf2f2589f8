"""Tests that simulated heartbeats report the use of the attempts, even if most heartbeats are skipped."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from schedbed.cluster.virtual.latencies import Latencies
from schedbed.deploy.results.metrics import utilisation
from schedbed.deploy.scenario.resolve import resolve
from schedbed.deploy.simulated.simulated_runs import setup_of
from schedbed.deploy.simulated.task_costs import costs_of
from schedbed.scheduler.core.rows import AttemptRow, NoSink
from schedbed.scheduler.history import COLUMNS, frame
from schedbed.scheduler.simulate.simulation import Simulation

NODES, CORES = 5, 4
NODE = {"cores": CORES, "core_speed": 1, "memory": "8GiB", "disk": "200MB/s", "network": "1Gbit/s"}
SCENARIO: dict[str, Any] = {
    "name": "use",
    "cluster": {"nodes": NODES, "node": NODE | {"map_slots": 4, "reduce_slots": 2}, "heartbeat": "3s"},
    "blocks": {"replication": 2},
    "workload": {
        "jobs": [
            {
                "name": f"j{at}",
                "app": "synthetic",
                "maps": maps,
                "submit": f"{at}s",
                "map": {"cpu": "40s", "read": "128MiB", "write": "64MiB", "variance": 0.4},
                "reduces": reduces,
                "reduce": {"cpu": "30s", "write": "256MiB"},
            }
            for at, maps, reduces in ((30, 30, 3), (300, 4, 1))
        ]
    },
    "policies": ["fifo"],
}


class Kept(NoSink):
    """A sink that keeps the rows of heartbeats and the sum of all attempts' CPU times."""

    def __init__(self) -> None:
        self.heartbeats: list[tuple[object, ...]] = []
        self.cpu_s = 0.0

    def attempt(self, row: AttemptRow) -> None:
        self.cpu_s += row.cpu_s or 0.0

    def heartbeat(self, row: tuple[object, ...]) -> None:
        self.heartbeats.append(row)

    def block(self, row: tuple[object, ...]) -> None: ...

    def fault(self, row: tuple[object, ...]) -> None: ...


@pytest.mark.parametrize("contention", [True, False])
def test_use_is_what_the_attempts_used_whether_all_heartbeats_are_simulated_or_few(contention: bool) -> None:
    scenario = resolve(SCENARIO | {"simulate": {"contention": contention}})
    setup = setup_of(scenario, scenario.policies[0], 0, costs_of(scenario), Latencies())
    rows: list[int] = []
    found: list[dict[str, float]] = []
    for all_heartbeats in (True, False):
        kept = Kept()
        simulation = Simulation(replace(setup, process_all_heartbeats=all_heartbeats), kept)
        simulation.run()
        heartbeats = frame("heartbeats", kept.heartbeats)
        assert list(heartbeats.columns)[2:] == list(COLUMNS["heartbeats"])
        used = utilisation(heartbeats)
        assert used["cpu"] == pytest.approx(kept.cpu_s / (NODES * CORES * simulation.now_s), rel=0.01)
        rows.append(len(heartbeats))
        found.append(used)
    assert rows[1] < rows[0] / 3
    assert found[1]["disk"] == pytest.approx(found[0]["disk"], rel=0.02)
