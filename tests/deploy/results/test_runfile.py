"""run.json survives being written and read, and foreign files are refused in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from schedbed.deploy.results.runfile import RunFile, RunRecord
from schedbed.tasks.errors import BadInput


def a_run() -> RunFile:
    return RunFile(
        scenario={"name": "s", "cluster": {"nodes": [{"node": "n1"}]}},
        policies=["fifo"],
        repeats=1,
        seed=7,
        machines="process",
        runs=[RunRecord(policy="fifo", repeat=0, epoch_s=1.5, host_samples=[[0.5, 0.9]])],
    )


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    run = a_run()
    run.save(tmp_path)
    again = RunFile.load(tmp_path)
    assert again == run
    assert again.run("fifo", 0) == run.runs[0] and again.run("fifo", 1) is None
    assert [node["node"] for node in again.nodes] == ["n1"]
    assert [p.name for p in tmp_path.iterdir()] == ["run.json"]


def test_a_newer_file_with_more_keys_can_be_read(tmp_path: Path) -> None:
    a_run().save(tmp_path)
    raw = json.loads((tmp_path / "run.json").read_text())
    raw["new"] = raw["runs"][0]["new"] = 1
    (tmp_path / "run.json").write_text(json.dumps(raw))
    assert RunFile.load(tmp_path) == a_run()


@pytest.mark.parametrize("text", ["", "[]", "{", '{"runs": []}', '{"runs": 3, "scenario": {}}', "nul\x00"])
def test_foreign_files_are_bad_input(tmp_path: Path, text: str) -> None:
    with pytest.raises(BadInput, match=r"run\.json: not found"):
        RunFile.load(tmp_path)
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(BadInput, match=r"run\.json: not a run's description"):
        RunFile.load(tmp_path)
