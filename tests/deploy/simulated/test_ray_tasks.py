"""Tests the command's side of runs on other hosts, with a stand-in for the Ray cluster."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from schedbed.deploy.cli.main import app
from schedbed.deploy.failures import RunFailed
from schedbed.deploy.live import ray_join
from schedbed.deploy.options import IN_CLEAR_SIMULATED
from schedbed.deploy.results.runfile import RunFile
from schedbed.deploy.scenario.resolve import resolve
from schedbed.deploy.simulated.host_runs import HostRuns
from schedbed.deploy.whole_run import RunOptions, run_scenario
from schedbed.tasks.errors import BadInput

JOB = {"name": "burn", "app": "synthetic", "maps": 6, "map": {"cpu": "20s"}}
SCENARIO = {"name": "small", "cluster": {"nodes": 2}, "workload": {"jobs": [JOB]}, "repeats": 2}
POLICIES = ["fifo", "fair", "delay"]
MADE = {"run.json", "summary.json", "timeline.json"}


class Cluster:
    """A stand-in for `tasks_on_hosts`, which simulates in this process.

    `end` is called with the result of each call, and the value that it returns is yielded instead.
    """

    def __init__(self, folder: Path, end: Callable[[int, bytes], Any]) -> None:
        self._folder, self._end = folder, end
        self.at_once: list[int | None] = []
        self.ended = False

    def __call__(
        self,
        address: str,
        function: object,
        arguments: Callable[[int], Iterable[bytes]],
        *,
        shared: bytes,
        at_once: int | None,
        needs_bytes: int,
    ) -> Generator[tuple[int, Any]]:
        self.at_once.append(at_once)
        assert address == "auto" and needs_bytes > 0
        runs = HostRuns(shared, self._folder)
        try:
            for number, asked in enumerate(arguments(at_once or 1)):
                yield number, self._end(number, runs.simulate(*json.loads(asked)))
        finally:
            self.ended = True


def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: Callable[[int, bytes], Any], **options: Any
) -> Cluster:
    (tmp_path / "there").mkdir()
    cluster = Cluster(tmp_path / "there", end)
    monkeypatch.setattr(ray_join, "tasks_on_hosts", cluster)
    chosen = RunOptions(
        out=tmp_path / "out", machines="sim", address="auto", live=False, report=False, **options
    )
    run_scenario(resolve(SCENARIO, policies=POLICIES), chosen)
    return cluster


def states(tmp_path: Path) -> dict[tuple[str, int], tuple[str, str]]:
    """Return the state and the note of each run, in the order of run.json."""
    runs = RunFile.load(tmp_path / "out").runs
    return {(each.policy, each.repeat): (each.state, each.note) for each in runs}


def test_the_files_are_those_of_this_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = run(tmp_path, monkeypatch, lambda _, found: found, jobs=7)
    assert capsys.readouterr().err.splitlines() == [IN_CLEAR_SIMULATED]
    assert cluster.at_once == [7] and cluster.ended
    run_scenario(
        resolve(SCENARIO, policies=POLICIES),
        RunOptions(out=tmp_path / "here", machines="sim", live=False, report=False),
    )
    here, there = tmp_path / "here", tmp_path / "out"
    names = {path.name for path in here.iterdir()}
    assert names == {path.name for path in there.iterdir()} > MADE
    same = {name for name in names if (here / name).read_bytes() == (there / name).read_bytes()}
    assert same == names - {"run.json"}
    assert list(states(tmp_path)) == [(each.policy, each.repeat) for each in RunFile.load(here).runs]


def test_replays_and_validations_are_those_of_this_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("schedbed.deploy.studies.validate.SIM_REPEATS", 2)
    # A simulated run stands for the live one.
    monkeypatch.setattr("schedbed.deploy.studies.validate._check_live", lambda *_: None)
    run_scenario(
        resolve(SCENARIO, policies=POLICIES), RunOptions(out=tmp_path / "done", machines="sim", live=False)
    )
    (tmp_path / "small.yaml").write_text(json.dumps(SCENARIO))
    commands = {
        "whatif": ["whatif", str(tmp_path / "done"), "--policy", "fair", "--policy", "delay"],
        "sim": [
            "validate",
            str(tmp_path / "small.yaml"),
            "--policy",
            "fifo",
            "--against",
            str(tmp_path / "done"),
        ],
    }
    for name, command in commands.items():
        (tmp_path / name).mkdir()
        cluster = Cluster(tmp_path / name, lambda _, found: found)
        monkeypatch.setattr(ray_join, "tasks_on_hosts", cluster)
        codes = [
            CliRunner().invoke(
                app, [*command, "--no-live", "--out", str(tmp_path / f"{name}-{where}"), *more]
            )
            for where, more in (("here", ()), ("there", ("--address", "auto", "--jobs", "5")))
        ]
        assert codes[0].exit_code == codes[1].exit_code and cluster.at_once == [5]
        here, there = (tmp_path / f"{name}-{where}" for where in ("here", "there"))
        names = {str(path.relative_to(here)) for path in here.rglob("*.*") if path.suffix != ".html"}
        differ = {each for each in names if (here / each).read_bytes() != (there / each).read_bytes()}
        assert {Path(each).name for each in differ} == {"run.json"}


def test_a_run_that_fails_on_its_host_fails_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def end(number: int, found: bytes) -> Any:
        return OSError("no memory\nmore about it") if number == 1 else found

    with pytest.raises(RunFailed, match=r"^\w+: no memory$"):
        run(tmp_path, monkeypatch, end)
    assert sorted(states(tmp_path).values()) == [("failed", "no memory")] + [("succeeded", "")] * 5


def test_an_interrupt_keeps_the_runs_that_have_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def end(number: int, found: bytes) -> Any:
        if number == 2:
            raise KeyboardInterrupt
        return found

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, monkeypatch, end)
    ended = [("interrupted", "KeyboardInterrupt"), ("succeeded", ""), ("succeeded", "")]
    assert sorted(states(tmp_path).values()) == ended


def test_a_damaged_answer_is_no_part_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    head = {"ended": {}, "printed": "", "parts": [["jobs", "../../stray", 1]]}
    with pytest.raises(ValueError, match="stray is no part file"):
        run(tmp_path, monkeypatch, lambda *_: json.dumps(head).encode() + b"\nx")
    assert not list(tmp_path.rglob("*stray*"))


def test_without_a_cluster_no_folder_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> Generator[tuple[int, Any]]:
        raise BadInput("--address auto: no Ray cluster answers")
        yield

    monkeypatch.setattr(ray_join, "tasks_on_hosts", refuse)
    with pytest.raises(BadInput, match=r"^--address auto: no Ray"):
        run_scenario(
            resolve(SCENARIO, policies=POLICIES),
            RunOptions(out=tmp_path / "out", machines="sim", address="auto", live=False),
        )
    assert not (tmp_path / "out").exists()
