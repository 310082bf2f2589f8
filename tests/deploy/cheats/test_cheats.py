"""No cheat gains anything in a confined process; in the simulator's own process, each that pays is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from schedbed.deploy.failures import RunFailed
from schedbed.deploy.options import RunOptions
from schedbed.deploy.results.summary import load
from schedbed.deploy.scenario.resolve import resolve
from schedbed.deploy.whole_run import run_scenario
from schedbed.scheduler.history import read_table
from tests.deploy.cheats.cheats import PAYING, SECRET, SIMULATED, text_of

NODE = {
    "cores": 2,
    "core_speed": 0.1,
    "memory": "512MiB",
    "disk": "40MB/s",
    "network": "100Mbit/s",
    "map_slots": 2,
    "reduce_slots": 1,
}
SCENARIO: dict[str, Any] = {
    "name": "cheated",
    "seed": 3,
    "cluster": {"nodes": 2, "node": NODE},
    "sizes": "hidden",
    "workload": {
        "jobs": [
            {"app": "synthetic", "maps": 6, "map": {"cpu": f"{SECRET}s"}, "reduces": 1, "deadline": "20s"},
            {"app": "synthetic", "maps": 4, "map": {"cpu": "2s"}, "submit": "3s"},
        ]
    },
}
HONEST = "pass"


def run(folder: Path, name: str, *, isolated: bool) -> tuple[str, Any]:
    """Return why the run failed, empty if it did not, and its jobs and attempts under the cheating policy."""
    SIMULATED.setdefault(HONEST, "pass")
    folder.mkdir(exist_ok=True)
    (folder / "scenario.yaml").write_text(yaml.safe_dump(SCENARIO))
    (folder / "mine.py").write_text(text_of(name, str(folder)))
    options = RunOptions(machines="sim", out=folder / "out", live=False, report=False, isolated=isolated)
    scenario = resolve(str(folder / "scenario.yaml"), policies=["fifo", f"{folder}/mine.py:Mine"])
    failed = ""
    try:
        run_scenario(scenario, options)
    except RunFailed as error:
        failed = str(error)
    rows = {
        table: read_table(folder / "out", table).drop(columns=["policy", "reason"], errors="ignore")
        for table in ("jobs", "attempts")
    }
    mine = {
        table: each[read_table(folder / "out", table)["policy"].str.endswith("Mine")].reset_index(drop=True)
        for table, each in rows.items()
    }
    return failed, mine


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Any:
    failed, rows = run(tmp_path_factory.mktemp("honest") / "run", HONEST, isolated=True)
    assert not failed
    return rows


@pytest.mark.parametrize("name", [name for name in SIMULATED if name != HONEST])
def test_a_cheat_gains_nothing_isolated(tmp_path: Path, honest: Any, name: str) -> None:
    failed, rows = run(tmp_path / "run", name, isolated=True)
    reasons = read_table(tmp_path / "run" / "out", "decisions")["reason"].astype(str)
    assert not reasons.str.contains("GAIN").any()
    fifo = load(tmp_path / "run" / "out")["policies"]["fifo"]["fidelity"]
    assert fifo["trusted"], fifo
    assert failed or all(rows[table].equals(honest[table]) for table in rows), rows


@pytest.mark.parametrize("name", PAYING)
def test_a_cheat_is_named_in_the_simulators_process(tmp_path: Path, honest: Any, name: str) -> None:
    failed, rows = run(tmp_path / "run", name, isolated=False)
    assert "Error" not in failed.replace("AssertionError", "")
    assert failed or all(rows[table].equals(honest[table]) for table in rows), rows


def test_an_isolated_policy_gives_the_same_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that has nothing to do for longer than a silent one may be is lost on neither side."""
    later = {"app": "synthetic", "maps": 9, "map": {"cpu": "5s"}, "submit": "60s"}
    faults = [{"at": "70s", "kill": "n2"}]
    monkeypatch.setitem(SCENARIO, "workload", {"jobs": [*SCENARIO["workload"]["jobs"], later]})
    monkeypatch.setitem(SCENARIO, "faults", faults)
    both = [run(tmp_path / str(isolated), HONEST, isolated=isolated) for isolated in (False, True)]
    assert [failed for failed, _ in both] == ["", ""]
    assert all(both[0][1][table].equals(both[1][1][table]) for table in ("jobs", "attempts"))
