"""Tests the energy of a run: idle watts all the time, the rest in proportion to the CPU used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from schedbed.deploy.results.metrics import RunTables, energy_wh
from schedbed.deploy.results.summary import load
from schedbed.deploy.scenario.resolve import resolve
from schedbed.deploy.whole_run import RunOptions, run_scenario
from schedbed.tasks.errors import BadInput

NODE = {"cores": 2, "core_speed": 0.5}


def test_by_hand() -> None:
    """Jobs last from 10 to 1,810 s. n1 draws 100 W for half an hour, 50 Wh. n2 draws 20 W, 10 Wh, and 80 W more at full
    use: its attempts take 900 s of the host's CPU, which is 900 s of its two half cores, 80 W x 900 s = 20 Wh.
    """
    jobs = pd.DataFrame(
        {"job": ["a", "b"], "submit": [10.0, 20.0], "finish": [1000.0, 1810.0], "user": ["x", "x"]}
    )
    attempts = pd.DataFrame({"job": ["a", "a", "b"], "node": ["n2"] * 3, "cpu_s": [400.0, 300.0, 200.0]})
    tables = {"jobs": jobs, "attempts": attempts}
    nodes: tuple[Any, ...] = (
        {"node": "n1", "idle_watts": 100.0, "busy_watts": 150.0, **NODE},
        {"node": "n2", "idle_watts": 20.0, "busy_watts": 100.0, **NODE},
        {"node": "n3", **NODE},
    )
    assert energy_wh(RunTables("fifo", 0, tables, nodes, {})) == pytest.approx(80)


def scenario(**node: Any) -> dict[str, Any]:
    burn = {"app": "synthetic", "maps": 8, "map": {"cpu": "90s"}}
    cluster = {"nodes": 2, "node": {"cores": 2, "core_speed": 1, "map_slots": 2, **node}}
    return {"cluster": cluster, "workload": {"jobs": [burn]}, "policies": ["fifo", "fair"]}


def test_a_run_has_it_if_nodes_declare_power(tmp_path: Path) -> None:
    """Two nodes compute for 180 s: 0.1 h x 200 W, and a little for the waits."""
    options = RunOptions(out=tmp_path / "a", machines="sim", live=False, report=False)
    found = load(run_scenario(resolve(scenario(power={"idle_watts": 100, "busy_watts": 200})), options))
    assert found["policies"]["fifo"]["energy_wh"]["mean"] == pytest.approx(20, rel=0.05)
    options = RunOptions(out=tmp_path / "b", machines="sim", live=False, report=False)
    assert "energy_wh" not in load(run_scenario(resolve(scenario()), options))["policies"]["fifo"]


@pytest.mark.parametrize(
    ("power", "line"),
    [
        ({"idle_watts": 100}, "cluster.node.power.busy_watts"),
        ({"idle_watts": 100, "busy_watts": 90}, "busy_watts 90 is below idle_watts 100"),
        ({"idle_watts": -1, "busy_watts": 90}, "cluster.node.power.idle_watts"),
        (90, "cluster.node.power"),
    ],
)
def test_wrong_power_is_refused(power: Any, line: str) -> None:
    with pytest.raises(BadInput, match=line):
        resolve(scenario(power=power))
