"""Faults of every kind during a live run, listed or drawn from a seed: the outputs are the same bytes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from schedbed.scheduler.history import read_tables
from tests.harness.command import outputs, start_run, write_scenario

pytestmark = pytest.mark.live

FAULTS = [
    {"at": "10s", "slow": "n3", "cpu": 0.3, "disk": 0.5, "for": "60s"},
    {"at": "20s", "kill_attempt": "any"},
    {"at": "25s", "corrupt_replica": "any"},
    {"at": "30s", "delete_replica": "any"},
    {"at": "35s", "delay": "n1", "by": "4s", "for": "40s"},
    {"at": "40s", "loss": "n3", "share": 0.2, "for": "40s"},
    {"at": "45s", "fill_disk": "n2", "for": "20s"},
    {"at": "50s", "crash": "jobtracker", "for": "30s"},
    {"at": "60s", "kill_tracker": "n2"},
    {"at": "70s", "restart": "namenode"},
    {"at": "75s", "kill_host": "n1"},
    {"at": "80s", "partition": "n1", "from": "masters", "for": "20s"},
]


def run(folder: Path, faults: object, *, report: bool = False) -> Path:
    """Run the small scenario with these faults, with or without a report; return its result folder.

    Checks that the run succeeds and leaves nothing behind.
    """
    command, out = start_run(folder, write_scenario(folder, faults=faults), report=report)
    assert command.wait() == 0, command.text()
    assert command.left_behind() == []
    return out


def test_faults_of_every_kind_change_no_output_byte(tmp_path: Path, undisturbed: Path) -> None:
    out = run(tmp_path, FAULTS, report=True)
    assert outputs(out) == outputs(undisturbed)
    tables = read_tables(out)
    faults = tables["faults"].set_index("kind")
    injected = list(faults.index)
    assert injected[:3] == ["slow", "kill_attempt", "corrupt_replica"]  # the run may be over before the last
    killed = faults["target"]["kill_attempt"]
    if killed:  # some attempt ran just then
        row = tables["attempts"].set_index("attempt").loc[killed]
        if row["state"] == "succeeded":  # the fault hit an attempt that ended by itself
            assert row["end"] < faults["t"]["kill_attempt"] + 1.0
        else:
            assert (row["state"], row["reason"]) == ("failed", "killed by signal 9 (SIGKILL)")
    assert (faults["t"] >= 0.5).all()
    names = {event["name"] for event in json.loads((out / "timeline.json").read_text())["traceEvents"]}
    assert "slow n3" in names
    assert (out / "report.html").stat().st_size > 100


def test_three_faults_from_a_seed_change_no_output_byte(tmp_path: Path, undisturbed: Path) -> None:
    out = run(tmp_path, {"random": {"count": 3, "seed": 2, "until": "100s", "for": "40s"}})
    assert outputs(out) == outputs(undisturbed)
    drawn = json.loads((out / "run.json").read_text())["scenario"]["faults"]
    assert len(drawn) == 3
    assert len(read_tables(out)["faults"]) > 0
