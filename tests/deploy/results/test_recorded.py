"""Tests reading a run's folder one policy and repeat at a time."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from schedbed.deploy.results import html_report
from schedbed.deploy.results.measures.row_values import row_values
from schedbed.deploy.results.metrics import select
from schedbed.deploy.results.recorded import MEASURED, VIEWED, Recorded
from schedbed.deploy.results.runfile import RunFile
from schedbed.scheduler.coded_columns import plain_texts
from schedbed.scheduler.history import groups_by_run, read_table, read_tables
from schedbed.tasks.errors import BadInput
from tests.harness.fake_run import FakeRun


@pytest.mark.parametrize("held_rows", [200_000, 10], ids=["small tables", "large tables"])
def test_each_run_is_what_the_whole_tables_say_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held_rows: int
) -> None:
    monkeypatch.setattr("schedbed.deploy.results.recorded.HELD_ROWS", held_rows)
    run = FakeRun(maps=30, repeats=2, policies=("fifo", "fair")).write(tmp_path)
    recorded, whole = Recorded(tmp_path, run), read_tables(tmp_path)
    for record in run.runs:
        mine = recorded.tables(record.policy, record.repeat)
        asked = select(whole, run.nodes, record.policy, record.repeat)
        for table in VIEWED:
            assert mine.tables[table].equals(asked.tables[table]) and len(mine.tables[table]), table
        assert recorded.jobs(record.policy, record.repeat).jobs.equals(asked.jobs)
    for record in run.runs:
        whole_end_s = select(whole, run.nodes, record.policy, record.repeat).end_s
        assert recorded.end_s(record.policy, record.repeat) == whole_end_s


def test_small_runs_are_read_once(tmp_path: Path) -> None:
    run = FakeRun(maps=10, policies=("fifo", "fair")).write(tmp_path)
    recorded = Recorded(tmp_path, run)
    fifo = recorded.tables("fifo", 0)
    (tmp_path / "attempts.parquet").unlink()
    both = [fifo, recorded.tables("fair", 0)]
    assert all(recorded.tables(held.policy, 0) is held for held in both)


def test_of_large_runs_only_the_last_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("schedbed.deploy.results.recorded.HELD_ROWS", 10)
    run = FakeRun(maps=10, policies=("fifo", "fair")).write(tmp_path)
    recorded = Recorded(tmp_path, run)
    fifo = recorded.tables("fifo", 0)
    assert recorded.tables("fifo", 0) is fifo
    recorded.tables("fair", 0)
    assert recorded.tables("fifo", 0) is not fifo
    end_s = recorded.end_s("fair", 0)
    (tmp_path / "attempts.parquet").unlink()
    assert recorded.end_s("fair", 0) == end_s > 0
    with pytest.raises(BadInput, match="no such table"):
        recorded.tables("fair", 0)
    assert len(read_table(tmp_path, "jobs", ("fair", 0))) == len(recorded.jobs("fair", 0).jobs)


def test_rows_have_the_values_of_the_table() -> None:
    table = pd.DataFrame(
        {
            "text": pd.Series(["a", None, "c"], dtype="str"),
            "number": [1.5, float("nan"), 0.0],
            "count": [1, 2, 3],
            "flag": [True, False, True],
        }
    )
    rows, wanted = list(row_values(table)), table.to_dict("records")
    assert repr(rows) == repr(wanted)
    assert [list(map(type, row.values())) for row in rows] == [
        list(map(type, row.values())) for row in wanted
    ]


def test_only_groups_of_rows_that_have_rows_of_the_run_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("schedbed.scheduler.history.ROW_GROUP_ROWS", 10)
    run = FakeRun(maps=30, repeats=2, policies=("fifo", "fair")).write(tmp_path)
    places = groups_by_run(tmp_path, "attempts")
    assert set(places) == {(record.policy, record.repeat) for record in run.runs}
    numbers = {number for groups in places.values() for number in groups}
    assert numbers == set(range(len(numbers))) and len(places["fair", 1]) < len(numbers)
    rows = read_table(tmp_path, "attempts", ("fair", 1), list(places["fair", 1]))
    assert len(rows) and rows.equals(read_table(tmp_path, "attempts", ("fair", 1)))
    assert read_table(tmp_path, "attempts", ("fair", 0), list(places["fifo", 1])).empty


def test_of_very_many_decisions_the_results_are_made_from_what_they_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("all", "few"):
        (tmp_path / folder).mkdir()
        FakeRun(maps=30, repeats=2, policies=("fifo", "fair")).write(tmp_path / folder)
        html_report.rebuild(tmp_path / folder, with_plots=False)
        monkeypatch.setattr("schedbed.deploy.results.recorded.MANY_GROUPS", 0)
    run = RunFile.load(tmp_path / "few")
    recorded = Recorded(tmp_path / "few", run)
    mine, whole = recorded.measured("fair", 1), Recorded(tmp_path / "all", run).tables("fair", 1)
    assert set(mine.attempts) == {"policy", "repeat", *MEASURED["attempts"]} < set(whole.attempts)
    for table in ("attempts", "heartbeats", "decisions"):
        rows = recorded.of_nodes("fair", 1, ["n1", "n3"]).tables[table]
        wanted = whole.tables[table][whole.tables[table]["node"].isin(["n1", "n3"])]
        assert plain_texts(rows).equals(plain_texts(wanted.reset_index(drop=True))) and len(rows), table
    for name in ("summary.json", "timeline.json", "report.html"):
        assert (tmp_path / "few" / name).read_bytes() == (tmp_path / "all" / name).read_bytes(), name
