"""Whole runs on container nodes: the same outputs as on processes, and nothing left behind after any end."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from schedbed.scheduler.history import read_tables
from tests.harness.command import SCENARIO, Command, eventually, outputs, start_run, write_scenario
from tests.harness.engine import engine_or_skip, left_of

pytestmark = pytest.mark.live


def start(folder: Path, *, report: bool = False, **changes: object) -> tuple[Command, Path]:
    """Start a run of the small scenario on containers; return the command and the folder of its results.

    Skips the test if there is no Docker engine.
    """
    engine_or_skip()
    return start_run(folder, write_scenario(folder, **changes), "--machines", "docker", report=report)


def gone(command: Command) -> bool:
    """Return whether the command has left nothing at the Docker engine and no process."""
    return not left_of(command.mark()) and not list(command.processes())


def submitted(command: Command) -> None:
    eventually(lambda: "submitted" in command.text(), "no job was submitted", within_s=300)


def test_containers_give_the_same_bytes_as_processes_also_under_faults(
    tmp_path: Path, undisturbed: Path
) -> None:
    slow = {"at": "20s", "slow": "n1", "cpu": 0.5, "network": 0.5, "for": "60s"}
    faults = [{"at": "40s", "kill": "n2", "for": "100s"}, slow]
    nic = {"latency": "10ms", "loss": 0.02}
    cluster = SCENARIO["cluster"] | {"uplink": "50MB/s", "node": SCENARIO["cluster"]["node"] | nic}
    command, out = start(tmp_path, report=True, cluster=cluster, faults=faults)
    assert command.wait() == 0, command.text()
    assert outputs(out) == outputs(undisturbed)
    assert command.left_behind() == [] and left_of(command.mark()) == []
    heartbeats = read_tables(out)["heartbeats"]
    assert (
        heartbeats["cpu_util"].max() > 0.3
        and heartbeats["disk_util"].max() > 0
        and heartbeats["net_util"].max() > 0
    )
    assert heartbeats["memory_bytes"].max() > 2**20
    run = json.loads((out / "run.json").read_text())
    assert run["machines"] == "docker" and run["runs"][0]["limits"]["network"] == "tc"
    limits = json.loads((out / "summary.json").read_text())["fidelity"]["limits"]
    for resource in ("cpu", "disk", "network", "memory"):
        assert set(limits[resource]["nodes"]) == {"n1", "n2", "n3"}
        assert limits[resource]["nodes"]["n1"]["configured"] > 0


def test_ctrl_c_leaves_nothing_at_the_engine(tmp_path: Path) -> None:
    command, out = start(tmp_path, report=True)
    submitted(command)
    assert len(left_of(command.mark())) == 7  # three containers with their volumes, and the network
    command.interrupt()
    assert command.wait() == 130, command.text()
    assert command.left_behind() == [] and left_of(command.mark()) == []
    assert (out / "report.html").exists()


def test_a_killed_command_leaves_nothing_at_the_engine_nor_a_process(tmp_path: Path) -> None:
    command, _ = start(tmp_path)
    submitted(command)
    command.process.kill()
    command.wait()
    eventually(lambda: gone(command), f"left: {left_of(command.mark())}", within_s=120)


def test_no_engine_is_one_line_and_nothing_is_started(tmp_path: Path) -> None:
    scenario = write_scenario(tmp_path)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "schedbed"),
            *("run", str(scenario), "--machines", "docker", "--out", str(tmp_path / "out")),
        ],
        env={"DOCKER_HOST": "unix:///no/such/socket", "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.count("\n") == 1 and "no engine to use: /no/such/socket" in done.stderr
    assert not (tmp_path / "out").exists()
