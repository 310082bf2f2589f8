"""Tests of the columns of codes from which metrics are computed, and of the pieces of results by run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedbed.deploy.results import html_report, timeline
from schedbed.deploy.results.measures.coded import Coded, filled, order_by
from schedbed.deploy.results.page import report_data
from schedbed.deploy.results.recorded import Recorded
from schedbed.scheduler.history import read_table
from tests.harness.fake_run import FakeRun

TEXTS = st.lists(st.sampled_from(["a", "b", "", "z", None]), max_size=12)


@given(TEXTS, st.booleans())
def test_a_categorical_column_has_the_texts_of_a_plain_one(texts: list[str | None], is_filled: bool) -> None:
    plain = pd.Series(texts, dtype="str")
    coded = plain.astype(pd.CategoricalDtype(["a", "b", "unused", "", "z"]))
    made = [Coded.of(filled(column) if is_filled else column) for column in (plain, coded)]
    found = [column.names[column.codes].tolist() for column in made]
    assert found[0] == found[1] == [("" if is_filled else "nan") if text is None else text for text in texts]
    rows = [{name: mine.tolist() for name, mine in column.rows().items()} for column in made]
    assert rows[0] == rows[1]


@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from([0.0, 0.5, 1.0, float("nan")]))), st.booleans())
def test_rows_are_ordered_by_code_then_time(rows: list[tuple[int, float]], is_in_order: bool) -> None:
    if is_in_order:
        rows.sort(key=lambda row: row[1])
    codes = np.array([code for code, _ in rows], int)
    times = np.array([t for _, t in rows], float)
    for large in (0, 1 << 16):
        assert order_by(codes + large, times).tolist() == np.lexsort((times, codes)).tolist()


def test_rows_of_a_run_are_counted_without_reading_the_table(tmp_path: Path) -> None:
    run = FakeRun(maps=30, repeats=2, policies=("fifo", "fair")).write(tmp_path)
    recorded = Recorded(tmp_path, run)
    for record in run.runs:
        key = (record.policy, record.repeat)
        assert recorded.count("attempts", *key) == len(read_table(tmp_path, "attempts", key)) > 0
    assert recorded.count("attempts", "fifo", 7) == 0


def test_no_piece_of_the_timeline_is_left_after_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = FakeRun(maps=10, repeats=2).write(tmp_path)

    def fails(*_: object) -> None:
        assert len(list(tmp_path.glob(".timeline*"))) == len(run.runs) > 1
        raise OSError("no space left")

    monkeypatch.setattr(timeline, "join", fails)
    with pytest.raises(OSError, match="no space left"):
        html_report.rebuild(tmp_path, with_report=False)
    assert not list(tmp_path.glob(".timeline*")) and not (tmp_path / timeline.NAME).exists()


def test_jobs_with_the_same_name_are_told_apart(tmp_path: Path) -> None:
    run = FakeRun(maps=4).write(tmp_path)
    mine = Recorded(tmp_path, run).jobs("fifo", 0)
    mine.jobs["name"] = ["same" if place != 1 else "other" for place in range(len(mine.jobs))]
    ids = mine.jobs["job"].tolist()
    shown = report_data.shown_jobs(report_data.jobs_of_all([mine, mine]), None)
    assert len(ids) > 2
    assert {job["job"]: job["name"] for job in shown} == {
        job: "other" if place == 1 else f"same ({job})" for place, job in enumerate(ids)
    }
    some = report_data.shown_jobs(report_data.jobs_of_all([mine]), [ids[2], "none", ids[0]])
    assert [job["job"] for job in some] == [ids[2], ids[0]]
