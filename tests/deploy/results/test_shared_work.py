"""Tests that several processes make the same result files as one, and that their errors are not lost."""

from __future__ import annotations

import os
from pathlib import Path
from shutil import copytree

import pytest

from schedbed.deploy.results import html_report, record_check, shared_work
from schedbed.deploy.results.runfile import RunFile, RunRecord, TableRecord
from schedbed.deploy.results.shared_work import LARGE_ROWS, cores_for, share
from schedbed.scheduler.history import COLUMNS, History
from schedbed.tasks.errors import BadInput
from tests.harness.fake_run import FakeRun

FILES = ("summary.json", "timeline.json", "report.html")


def test_results_are_in_the_order_of_the_work() -> None:
    assert share([lambda n=n: n * n for n in range(5)], 2) == [0, 1, 4, 9, 16]


def test_work_is_done_in_other_processes() -> None:
    assert os.getpid() not in share([os.getpid, os.getpid], 2)
    assert share([os.getpid, os.getpid], 1) == [os.getpid()] * 2


def test_an_error_is_that_of_the_work() -> None:
    def fails() -> None:
        raise BadInput("attempts.parquet: not a readable table")

    with pytest.raises(BadInput, match="not a readable table"):
        share([fails, os.getpid], 2)


def test_work_of_a_killed_process_is_done_again(tmp_path: Path) -> None:
    tries = tmp_path / "tries"

    def dies() -> str:
        with tries.open("a") as file:
            file.write("x")
        if os.getpid() != parent:
            os._exit(3)
        return "done"

    parent = os.getpid()
    assert share([dies, os.getpid], 2)[0] == "done" and tries.read_text() == "xx"


@pytest.mark.parametrize(
    ("machines", "rows", "repeats", "several"),
    [
        ("sim", LARGE_ROWS, 2, True),
        ("sim", LARGE_ROWS, 1, True),
        ("sim", LARGE_ROWS - 1, 2, False),
        ("process", LARGE_ROWS, 2, False),
    ],
)
def test_only_large_simulations_are_shared(
    monkeypatch: pytest.MonkeyPatch, machines: str, rows: int, repeats: int, several: bool
) -> None:
    monkeypatch.setattr(shared_work, "all_cores", lambda: 4)
    run = RunFile(
        scenario={},
        policies=[],
        repeats=repeats,
        seed=1,
        jobs=[],
        machines=machines,
        versions={},
        host={},
        wall_start="",
        tables={"attempts": TableRecord(rows=rows, sha256="")},
        runs=[RunRecord(policy="fifo", repeat=repeat, epoch_s=0.0) for repeat in range(repeats)],
    )
    assert cores_for(run) == (4 if several else 1)


@pytest.mark.parametrize(
    ("policies", "repeats", "groups", "works"),
    [
        (("fifo", "fair"), 3, 1000, [6]),
        (("fifo",), 3, 1000, [6]),
        (("fifo",), 1, 1000, [5]),
        (("fifo",), 1, 0, [1]),
    ],
)
def test_several_processes_write_the_same_files(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    policies: tuple[str, ...],
    repeats: int,
    groups: int,
    works: list[int],
) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    FakeRun(policies=policies, repeats=repeats, maps=30).write(one)
    copytree(one, two)
    html_report.rebuild(one, with_plots=False)
    monkeypatch.setattr(html_report, "cores_for", lambda _: 2)
    monkeypatch.setattr("schedbed.deploy.results.recorded.MANY_GROUPS", groups)
    shared: list[int] = []
    monkeypatch.setattr(
        html_report, "share", lambda works, at_once: shared.append(len(works)) or share(works, at_once)
    )
    html_report.rebuild(two, with_plots=False)
    assert shared == works
    assert [(one / name).read_bytes() for name in FILES] == [(two / name).read_bytes() for name in FILES]


@pytest.mark.parametrize(("machines", "are_shared"), [("sim", True), ("process", False)])
def test_several_processes_merge_the_same_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, machines: str, are_shared: bool
) -> None:
    for name in ("one", "two"):
        history = History(tmp_path / name, "fifo", 0, part_rows=10)
        history.append("faults", [(float(second), "kill", f"n{second}", None) for second in range(35)])
        history.append("blocks", [(f"b{i}", "/in/a", f"n{i}", i, 0.0, None, "input") for i in range(25)])
        history.close()
        torn = max((tmp_path / name / "parts" / "blocks").iterdir())
        torn.write_bytes(torn.read_bytes()[:-9])
    runs = {
        name: RunFile(scenario={}, policies=["fifo"], repeats=1, seed=1, machines=machines)
        for name in ("one", "two")
    }
    record_check.merge_parts(tmp_path / "one", runs["one"])
    monkeypatch.setattr(shared_work, "LARGE_BYTES", 1)
    monkeypatch.setattr(shared_work, "all_cores", lambda: 2)
    processes: list[int] = []
    monkeypatch.setattr(
        record_check, "share", lambda works, at_once: processes.append(at_once) or share(works, at_once)
    )
    record_check.merge_parts(tmp_path / "two", runs["two"])
    assert processes == [2 if are_shared else 1] * 2
    assert runs["one"].left_out == runs["two"].left_out == ["blocks/" + torn.name]
    assert runs["one"].tables == runs["two"].tables and runs["two"].tables["faults"].rows == 35
    for table in COLUMNS:
        one, two = (tmp_path / name / f"{table}.parquet" for name in ("one", "two"))
        assert one.read_bytes() == two.read_bytes()
