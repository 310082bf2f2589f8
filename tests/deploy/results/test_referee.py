"""The referee names rows that no cluster could have made, and nothing in an honest run."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from schedbed.deploy.failures import RunFailed
from schedbed.deploy.options import RunOptions
from schedbed.deploy.results import summary
from schedbed.deploy.results.recorded import Recorded
from schedbed.deploy.results.referee import Referee
from schedbed.deploy.results.runfile import RunFile
from schedbed.deploy.scenario.resolve import resolve
from schedbed.deploy.service.show import show_down
from schedbed.deploy.whole_run import run_scenario
from schedbed.scheduler.registry.registry import POLICIES, is_rigid

SCENARIO = {
    "name": "two-jobs",
    "seed": 4,
    "cluster": {
        "nodes": 3,
        "node": {
            "cores": 2,
            "core_speed": 0.1,
            "memory": "600MiB",
            "disk": "40MB/s",
            "network": "100Mbit/s",
            "map_slots": 2,
            "reduce_slots": 1,
        },
    },
    "workload": {
        "jobs": [
            {"app": "synthetic", "maps": 9, "map": {"cpu": "5s"}, "reduces": 2, "reduce": {"cpu": "3s"}},
            {"app": "synthetic", "maps": 6, "map": {"cpu": "2s"}, "submit": "4s", "deadline": "1m"},
        ]
    },
    "policies": ["fifo", "fair"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("honest") / "out"
    return run_scenario(resolve(SCENARIO), RunOptions(machines="sim", out=out, live=False, report=False))


Tables = dict[str, pd.DataFrame]


def _first_two_at_once(tables: Tables) -> None:
    rows = tables["attempts"]
    rows.loc[rows["kind"] == "map", ["node", "assigned"]] = ["n1", 4.1]


def _half(tables: Tables) -> None:
    for table, names in (
        ("attempts", ["assigned", "start", "end"]),
        ("jobs", ["submit", "start", "finish"]),
        ("heartbeats", ["t"]),
    ):
        tables[table][names] = tables[table][names] * 0.5


FORGERIES: dict[str, tuple[Callable[[Tables], Any], str]] = {
    "time runs at half its speed": (_half, "its cost is 5 s"),
    "a job without its tasks": (
        lambda tables: tables.update(attempts=tables["attempts"].iloc[:3]),
        "succeeded, but",
    ),
    "a row twice": (
        lambda tables: tables.update(attempts=pd.concat([tables["attempts"]] * 2, ignore_index=True)),
        "has two rows",
    ),
    "a job twice": (
        lambda tables: tables.update(jobs=pd.concat([tables["jobs"]] * 2, ignore_index=True)),
        "has two rows",
    ),
    "a job ends before its tasks": (
        lambda tables: tables["jobs"].__setitem__("finish", tables["jobs"]["finish"] - 3.0),
        "its last",
    ),
    "submitted later": (
        lambda tables: tables["jobs"].__setitem__("submit", tables["jobs"]["submit"] + 0.01),
        "was not submitted as planned",
    ),
    "another deadline": (lambda tables: tables["jobs"].__setitem__("deadline", 1e6), "another deadline"),
    "a job of nobody": (
        lambda tables: tables["jobs"].__setitem__("job", tables["jobs"]["job"] + "x"),
        "was not planned",
    ),
    "too many on a node": (_first_two_at_once, "in 2 slots"),
    "an unknown node": (lambda tables: tables["attempts"].__setitem__("node", "n9"), "no such node"),
    "more CPU than there is": (
        lambda tables: tables["attempts"].__setitem__("cpu_s", 1e3),
        "one core gives",
    ),
    "it ends before it starts": (
        lambda tables: tables["attempts"].__setitem__("end", tables["attempts"]["start"] - 1.0),
        "do not increase",
    ),
    "a heartbeat from nowhere": (lambda tables: tables["heartbeats"].__setitem__("node", "n9"), "heartbeat"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_forged_rows_are_named(folder: Path, name: str) -> None:
    run = RunFile.load(folder)
    record = run.runs[0]
    tables = {
        table: rows.copy()
        for table, rows in Recorded(folder, run).tables(record.policy, record.repeat).tables.items()
    }
    assert Referee(run).impossible(record, tables) == []
    forge, words = FORGERIES[name]
    forge(tables)
    lines = Referee(run).impossible(record, tables)
    assert any(words in line for line in lines), lines


def test_parts_of_an_ended_run_are_sealed(folder: Path, tmp_path: Path) -> None:
    """A file that is added to another policy's rows makes that run untrusted."""
    from schedbed.deploy.results.record_check import merge_parts, seal
    from schedbed.scheduler.history import History

    run = RunFile.load(folder)
    run.tables, run.runs = {}, run.runs[:1]
    record = run.runs[0]
    history = History(tmp_path, record.policy, record.repeat)
    history.append("faults", [(1.0, "slow", "n1", 2.0)])
    history.close()
    seal(tmp_path, record)
    part = next((tmp_path / "parts" / "faults").iterdir())
    shutil.copy(part, part.with_name(part.name.replace("-0.parquet", "-9.parquet")))
    merge_parts(tmp_path, run)
    assert record.rewritten == ["faults/" + part.name.replace("-0.parquet", "-9.parquet")]
    tables = Recorded(folder, RunFile.load(folder)).tables(record.policy, 0).tables
    assert "rows of faults/" in Referee(run).impossible(record, dict(tables))[0]


def test_no_shipped_policy_is_accused(tmp_path: Path) -> None:
    """Their rows are those of the quickstart, where RAS runs two reduces on a node with one slot for reduces."""
    # mrcp needs OR-Tools, and rigid policies place a whole job at once, for which the cluster is too small.
    policies = [name for name in POLICIES if name != "mrcp" and not is_rigid(name)]
    scenario = resolve("quickstart", policies=policies)
    run_scenario(scenario, RunOptions(machines="sim", out=tmp_path, live=False, report=False))
    run = RunFile.load(tmp_path)
    referee, recorded = Referee(run), Recorded(tmp_path, run)
    found = {
        record.policy: referee.impossible(record, dict(recorded.tables(record.policy, 0).tables))
        for record in run.runs
    }
    assert {policy: lines for policy, lines in found.items() if lines} == {}
    assert len(found) == len(policies)


def test_down_of_a_cluster_with_impossible_rows_fails(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Ended:
        name = "lab"

        def down(self, *, wait: bool) -> Path:
            return folder

    figures = summary.load(folder)
    monkeypatch.setattr("schedbed.deploy.service.show.connect", lambda name: Ended())
    monkeypatch.setattr("schedbed.deploy.results.summary.load", lambda _: figures)
    show_down("lab", everything=False, wait=False)
    figures["policies"]["fifo"]["fidelity"]["impossible"] = ["Impossible: a row."]
    with pytest.raises(RunFailed, match="fifo: Impossible: a row"):
        show_down("lab", everything=False, wait=False)
