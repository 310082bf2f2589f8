"""Tests that run.json is the same after writing and reading, and that foreign files are refused."""

from __future__ import annotations

import hashlib
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
    text = (tmp_path / "run.json").read_text().rpartition(',\n"seal"')[0]
    newer = text.replace('"policy": "fifo",', '"policy": "fifo", "new": 1,') + ',\n"new": 1'
    seal = hashlib.sha256(newer.encode()).hexdigest()
    (tmp_path / "run.json").write_text(f'{newer},\n"seal": "{seal}"\n}}\n')
    assert '"new"' in newer
    assert RunFile.load(tmp_path) == a_run()


def test_a_file_that_was_edited_or_has_no_seal_is_bad_input(tmp_path: Path) -> None:
    run = a_run()
    run.runs[0].state = "failed"
    run.save(tmp_path)
    path = tmp_path / "run.json"
    text = path.read_text()
    path.write_text(text.replace('"failed"', '"succeeded"'))
    with pytest.raises(BadInput, match=r"run\.json: was changed after it was written"):
        RunFile.load(tmp_path)
    path.write_text(text.rpartition(",\n")[0] + "\n}\n")
    with pytest.raises(BadInput, match=r"run\.json: has no checksum"):
        RunFile.load(tmp_path)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"runs": []}', '{"runs": 3, "scenario": {}}', "nul\x00"])
def test_foreign_files_are_bad_input(tmp_path: Path, text: str) -> None:
    with pytest.raises(BadInput, match=r"run\.json: not found"):
        RunFile.load(tmp_path)
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(BadInput, match=r"run\.json: not a run's description"):
        RunFile.load(tmp_path)


def test_what_is_loaded_is_saved_as_it_was(tmp_path: Path) -> None:
    run = a_run()
    run.save(tmp_path)
    text = (tmp_path / "run.json").read_text()
    again = RunFile.load(tmp_path)
    again.save(tmp_path)
    assert (tmp_path / "run.json").read_text() == text
    again.scenario = {"name": "another"}
    again.save(tmp_path)
    assert RunFile.load(tmp_path).scenario == {"name": "another"}


def test_a_scenario_that_was_changed_after_loading_is_saved_as_changed(tmp_path: Path) -> None:
    a_run().save(tmp_path)
    again = RunFile.load(tmp_path)
    again.scenario["name"] = "another"
    again.save(tmp_path)
    assert RunFile.load(tmp_path).scenario == {**a_run().scenario, "name": "another"}


def test_a_file_with_other_lines_is_saved_in_its_own(tmp_path: Path) -> None:
    """The lines of a scenario are kept as they were read only if they are those that `save` writes."""
    run = a_run()
    run.save(tmp_path)
    path = tmp_path / "run.json"
    text = path.read_text()
    for old, new in ((',\n"policies"', ', "policies"'), ('{"name": "s",', '{"name": "s",\n')):
        other = text.rpartition(',\n"seal"')[0].replace(old, new)
        seal = hashlib.sha256(other.encode()).hexdigest()
        path.write_text(f'{other},\n"seal": "{seal}"\n}}\n')
        RunFile.load(tmp_path).save(tmp_path)
        assert path.read_text() == text


def test_a_record_that_was_not_read_is_as_the_one_that_was(tmp_path: Path) -> None:
    run = a_run()
    run.runs[0].findings = {"pools": {1: (2, 3)}}
    run.save(tmp_path)
    made = run.as_loaded()
    assert made == RunFile.load(tmp_path) and made.runs[0].findings == {"pools": {"1": [2, 3]}}
    text = (tmp_path / "run.json").read_text()
    made.save(tmp_path)
    assert (tmp_path / "run.json").read_text() == text


def test_a_given_text_of_the_scenario_is_written(tmp_path: Path) -> None:
    run = a_run()
    run.scenario = {"name": "s", "jobs": range(2)}
    run.keep_text('{"name": "s", "jobs": [0, 1]}')
    run.save(tmp_path)
    assert RunFile.load(tmp_path).scenario == {"name": "s", "jobs": [0, 1]}
