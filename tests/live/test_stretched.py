"""A live run whose emulated seconds last longer than real ones: rates, timers and times agree with this."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
import yaml

from schedbed.scheduler.history import read_tables
from tests.harness.command import start_run

pytestmark = pytest.mark.live

STRETCH, CORE_SPEED, HEARTBEAT_S, FAULT_S = 3, 0.3, 0.5, 1.0


def test_a_stretched_run_keeps_its_declared_rates_in_emulated_time(tmp_path: Path) -> None:
    node = {"cores": 2, "core_speed": CORE_SPEED, "map_slots": 2, "reduce_slots": 1}
    burn = {"app": "synthetic", "maps": 8, "map": {"cpu": "1s", "write": "1MiB"}, "reduces": 1}
    scenario = {
        "name": "stretched",
        "stretch": STRETCH,
        "cluster": {"nodes": 2, "node": node, "heartbeat": f"{HEARTBEAT_S}s"},
        "blocks": {"replication": 1},
        "workload": {"jobs": [burn]},
        "faults": [{"at": f"{FAULT_S}s", "delay": "n1", "by": "10ms", "for": "1s"}],
        "policies": ["fifo"],
    }
    (tmp_path / "stretched.yaml").write_text(yaml.safe_dump(scenario))
    command, out = start_run(tmp_path, tmp_path / "stretched.yaml", report=True)
    assert command.wait() == 0, command.text()
    ended_s = time.time()
    assert f"An emulated second lasted {STRETCH} s of this host" in command.text()
    [run] = json.loads((out / "run.json").read_text())["runs"]
    tables = read_tables(out)
    assert STRETCH * run["duration_s"] <= ended_s - run["epoch_s"]  # no emulated second was shorter
    maps = tables["attempts"].query("kind == 'map'")
    used = maps["cpu_s"] / (maps["end"] - maps["start"]) / CORE_SPEED
    assert used.max() <= 1.1 and (maps["cpu_s"] >= CORE_SPEED * 0.95).all()
    gaps = tables["heartbeats"].query("node == 'n2'")["t"].diff().dropna()
    assert gaps.quantile(0.9) >= 0.9 * HEARTBEAT_S  # but for those that tell an end at once
    [fault] = tables["faults"].to_dict("records")
    assert fault["t"] >= FAULT_S and fault["until"] - fault["t"] == pytest.approx(1.0)
    assert command.left_behind() == []
