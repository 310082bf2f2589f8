"""Simulates jobs of a trace that read the same path: they share one file, and maps run where its replicas
are.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from schedbed.cluster.virtual.latencies import Latencies
from schedbed.deploy.scenario.resolve import resolve
from schedbed.deploy.simulated.simulated_runs import setup_of
from schedbed.deploy.simulated.task_costs import costs_of
from schedbed.scheduler.core.rows import NoSink
from schedbed.scheduler.simulate.simulation import Simulation

MIB = 2**20


class Reads(NoSink):
    """A sink that keeps the bytes read by each job's maps, and the input files that have blocks."""

    def __init__(self) -> None:
        self.read_bytes: dict[str, int] = {}
        self.files: set[str] = set()

    def job(self, row: Any) -> None:
        assert row.state == "succeeded"

    def attempt(self, row: Any) -> None:
        if row.kind == "map":
            read = row.read_local_bytes + row.read_remote_bytes
            self.read_bytes[row.job] = self.read_bytes.get(row.job, 0) + read

    def heartbeat(self, row: Any) -> None: ...

    def block(self, row: Any) -> None:
        self.files.add(row[1])

    def fault(self, row: Any) -> None: ...


def test_readers_of_one_path_in_several_sizes_read_their_bytes_of_one_file(tmp_path: Path) -> None:
    path = tmp_path / "t.tsv"
    path.write_text("".join(f"j{n}\t{n}\t0\t{(n + 1) * 30 * MIB}\t{n % 2}\t9\tp\t\t\n" for n in range(6)))
    scenario = resolve(
        {
            "cluster": {"nodes": 4, "racks": 2},
            "blocks": {"replication": 2},
            "workload": {"trace": str(path)},
            "policies": ["delay"],
            "simulate": {"engine": "objects"},
        }
    )
    seen = Reads()
    Simulation(setup_of(scenario, scenario.policies[0], 0, costs_of(scenario), Latencies()), seen).run()
    assert {name for name in seen.files if name.startswith("/in/")} == {"/in/p"}
    assert seen.read_bytes == {f"job_{n + 1:04d}": (n + 1) * 30 * MIB for n in range(6)}
