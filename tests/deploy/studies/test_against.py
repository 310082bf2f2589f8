"""Tests that `validate --against` takes only live runs of the same scenario."""

from __future__ import annotations

from pathlib import Path

import pytest

from schedbed.deploy.results.runfile import RunFile
from tests.harness.damaged_runs import SCENARIO, call, make_run


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("run"), "3s")


def against(folder: Path, scenario: str, out: Path) -> tuple[int, str]:
    file = out.with_suffix(".yaml")
    file.write_text(scenario)
    return call("validate", file, "--against", folder, "--no-live", "--out", out)


def as_live(simulated: Path) -> None:
    run = RunFile.load(simulated)
    run.machines = "process"
    run.save(simulated)


def test_a_simulated_folder_is_refused(simulated: Path, tmp_path: Path) -> None:
    code, text = against(simulated, SCENARIO.replace("SECONDS", "3s"), tmp_path / "out")
    assert code == 2 and "simulated, expected a live run of the same scenario" in text
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("SECONDS", "2s", "another scenario (jobs differ)"),
        ("nodes: 4", "nodes: 5", "another scenario (cluster differ)"),
        ("policies: [fifo, fair]", "policies: [delay]", "holds no run of delay"),
        ("name: record", "name: other", None),
        ("nodes: 4", "nodes: 4, racks: 1", None),
    ],
)
def test_only_the_same_scenario_is_taken(
    simulated: Path, tmp_path: Path, old: str, new: str, told: str | None
) -> None:
    as_live(simulated)
    scenario = SCENARIO.replace(old, new).replace("SECONDS", "3s")
    code, text = against(simulated, scenario, tmp_path / "out")
    if told is None:
        assert "makespan" in text, text
    else:
        assert code == 2 and told in text, text
