"""Rows that are written to the history can be read from the merged tables, whatever happens in between."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import fastparquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedbed.scheduler.coded_columns import plain_texts
from schedbed.scheduler.history import (
    COLUMNS,
    FLOAT,
    INT,
    STR,
    History,
    frame,
    groups_by_run,
    read_table,
    read_tables,
)
from schedbed.scheduler.part_merge import merge
from schedbed.tasks.errors import BadInput

JOB = ("job_0001", "wc", "ana", "default", "wordcount", 0.0, 1.0, 9.5, None, 4, 2, 1000, None, "succeeded")


def job(job_id: str, **changes: object) -> tuple[object, ...]:
    values = dict(zip(COLUMNS["jobs"], JOB, strict=True)) | {"job": job_id} | changes
    return tuple(values.values())


def test_rows_of_all_runs_come_back_in_order_with_policy_and_repeat_first(tmp_path: Path) -> None:
    for policy in ("fifo", "order=fair,locality=split:p=0.25"):
        history = History(tmp_path, policy, 1)
        history.append("jobs", [job("job_0001"), job("job_0002", name="größe")])
        history.close()
    assert merge(tmp_path) == []
    jobs = read_table(tmp_path, "jobs")
    assert list(jobs.columns) == ["policy", "repeat", *COLUMNS["jobs"]]
    assert list(jobs["policy"]) == ["fifo"] * 2 + ["order=fair,locality=split:p=0.25"] * 2
    assert jobs["name"].tolist() == ["wc", "größe"] * 2
    assert jobs["repeat"].tolist() == [1] * 4


def test_missing_values_stay_missing_and_empty_tables_have_all_columns(tmp_path: Path) -> None:
    history = History(tmp_path, "fifo", 0)
    history.append("jobs", [JOB])
    history.close()
    merge(tmp_path)
    tables = read_tables(tmp_path)
    only = tables["jobs"].iloc[0]
    assert math.isnan(only["deadline"]) and tables["jobs"]["output_bytes"].isna().all()
    for table, columns in COLUMNS.items():
        assert list(tables[table].columns) == ["policy", "repeat", *columns]
        raw = fastparquet.ParquetFile(str(tmp_path / f"{table}.parquet"))
        assert raw.columns == ["policy", "repeat", *columns]
    assert tables["blocks"].empty and str(tables["blocks"]["bytes"].dtype) == "int64"


def test_parts_are_written_at_most_every_few_seconds(tmp_path: Path) -> None:
    now = [100.0]
    history = History(tmp_path, "fifo", 0, every_s=3.0, clock=lambda: now[0])
    parts = lambda: len(list((tmp_path / "parts").rglob("*.parquet")))  # noqa: E731
    for second in range(10):
        now[0] = 100.0 + second
        history.append("faults", [(float(second), "kill", "n3", None)])
        history.flush()
    assert parts() == 3
    history.close()
    merge(tmp_path)
    assert read_table(tmp_path, "faults")["t"].tolist() == [float(s) for s in range(10)]
    assert not (tmp_path / "parts").exists()


def test_a_torn_part_is_named_and_the_rest_is_kept(tmp_path: Path) -> None:
    history = History(tmp_path, "fifo", 0)
    for name in ("job_0001", "job_0002", "job_0003"):
        history.append("jobs", [job(name)])
        history.close()
    last = sorted((tmp_path / "parts" / "jobs").iterdir())[-1]
    last.write_bytes(last.read_bytes()[:-20])
    assert merge(tmp_path) == [f"jobs/{last.name}"]
    assert read_table(tmp_path, "jobs")["job"].tolist() == ["job_0001", "job_0002"]
    assert [p.name for p in (tmp_path / "parts.broken" / "jobs").iterdir()] == [last.name]


def test_merging_again_and_going_on_in_the_same_folder_loses_and_doubles_nothing(tmp_path: Path) -> None:
    history = History(tmp_path, "fifo", 0)
    history.append("jobs", [job("job_0001")])
    history.close()
    again = History(
        tmp_path, "fifo", 0
    )  # a driver that was restarted: its parts must not overwrite the first's
    again.append("jobs", [job("job_0002")])
    again.close()
    merge(tmp_path)
    merge(tmp_path)
    assert read_table(tmp_path, "jobs")["job"].tolist() == ["job_0001", "job_0002"]


def test_a_row_of_the_wrong_width_is_refused_at_once(tmp_path: Path) -> None:
    history = History(tmp_path, "fifo", 0)
    with pytest.raises(ValueError, match="faults: a row has 2 values, expected 4"):
        history.append("faults", [(1.0, "kill")])


def test_a_missing_or_foreign_file_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"jobs\.parquet: no such table"):
        read_table(tmp_path, "jobs")
    (tmp_path / "jobs.parquet").write_text("not parquet")
    with pytest.raises(BadInput, match="not a readable"):
        read_table(tmp_path, "jobs")


_VALUES = {
    STR: st.none() | st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6),
    FLOAT: st.none() | st.floats(allow_nan=False, width=32),
    INT: st.none() | st.integers(-(2**60), 2**60),
}


@given(st.lists(st.tuples(*(_VALUES[kind] for kind in COLUMNS["blocks"].values())), max_size=5))
def test_any_rows_make_a_frame_of_the_declared_types(rows: list[tuple[object, ...]]) -> None:
    made = frame("blocks", rows, "p", 2)
    assert len(made) == len(rows)
    for row, values in zip(rows, made.itertuples(index=False), strict=True):
        for given_value, value in zip(row, values[2:], strict=True):
            assert value == given_value or given_value is None


def test_parts_of_a_set_number_of_rows_bound_the_memory_and_make_equal_files(tmp_path: Path) -> None:
    for folder, pieces in (("a", [7]), ("b", [1, 2, 4])):
        history = History(tmp_path / folder, "fifo", 0, part_rows=3)
        rows = [job(f"job_{number:04d}") for number in range(7)]
        for length in pieces:
            history.append("jobs", [rows.pop(0) for _ in range(length)])
            history.flush()
        assert len(list((tmp_path / folder / "parts" / "jobs").iterdir())) == 2
        history.close()
        merge(tmp_path / folder)
    one, other = (tmp_path / folder / "jobs.parquet" for folder in "ab")
    assert one.read_bytes() == other.read_bytes()
    assert len(read_table(tmp_path / "a", "jobs")) == 7


def test_one_run_is_read_out_of_several_and_equal_strings_are_one_object(tmp_path: Path) -> None:
    for policy in ("fifo", "fair"):
        for repeat in (0, 1):
            history = History(tmp_path, policy, repeat, part_rows=5)
            history.append("jobs", [job(f"{policy}_{repeat}_{number}") for number in range(12)])
            history.close()
    merge(tmp_path)
    whole, mine = read_table(tmp_path, "jobs"), read_table(tmp_path, "jobs", ("fair", 1))
    assert len(whole) == 48 and mine["job"].tolist() == [f"fair_1_{number}" for number in range(12)]
    asked = whole[(whole["policy"] == "fair") & (whole["repeat"] == 1)].reset_index(drop=True)
    assert mine.equals(asked) and (mine.dtypes == whole.dtypes).all()
    assert len({id(app) for app in mine["app"]}) == 1 < len({id(name) for name in mine["job"]})
    assert read_table(tmp_path, "jobs", ("delay", 0)).empty


def test_texts_stored_as_codes_are_the_same_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("schedbed.scheduler.history.ROW_GROUP_ROWS", 8)
    monkeypatch.setattr("schedbed.scheduler.coded_columns.CODED_ROWS", 8)
    rows = [(float(number), "kill", f"n{9 - number % 4}", None) for number in range(16)]
    for folder, is_coded in ((tmp_path / "plain", False), (tmp_path / "coded", True)):
        history = History(folder, "fifo", 0)
        for low, high in ((0, 3), (3, 4), (4, 9), (9, 16)):
            data = frame("faults", rows[low:high]).drop(columns=["policy", "repeat"])
            history.append_frame(
                "faults", data.astype({"kind": "category", "target": "category"}) if is_coded else data
            )
        assert merge(folder) == []
    plain, coded = (read_table(tmp_path / name, "faults") for name in ("plain", "coded"))
    assert plain.equals(coded) and len(coded) == len(rows)
    codes = read_table(tmp_path / "coded", "faults", ("fifo", 0), coded=True)
    assert list(codes["target"].cat.categories) == ["n6", "n7", "n8", "n9"]
    assert plain_texts(codes).equals(plain)
    later = read_table(tmp_path / "coded", "faults", coded=True, keep=lambda data: data["t"] > 2.5)
    assert later["t"].tolist() == [row[0] for row in rows[3:]]
    for only in (None, ("fifo", 0)):
        assert groups_by_run(tmp_path / "coded", "faults", only) == {("fifo", 0): {0: 8, 1: 8}}


def test_whole_groups_of_a_large_run_are_copied_and_a_damaged_one_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("schedbed.scheduler.history.ROW_GROUP_ROWS", 4)
    monkeypatch.setattr("schedbed.scheduler.coded_columns.CODED_ROWS", 4)
    rows = [job(f"job_{number:04d}", user=f"u{number % 2}") for number in range(10)]
    for folder, part_rows in (("whole", 4), ("small", 3), ("torn", 4)):
        for policy, count in (("a", 3), ("b", 10), ("c", 2)):
            history = History(tmp_path / folder, policy, 0, part_rows=part_rows)
            history.append("jobs", rows[:count])
            history.close()
    torn = sorted((tmp_path / "torn" / "parts" / "jobs").glob("b*"))[1]
    content = bytearray(torn.read_bytes())
    content[60] ^= 1
    torn.write_bytes(content)
    assert [merge(tmp_path / name) for name in ("whole", "small", "torn")] == [[], [], [f"jobs/{torn.name}"]]
    whole, small = ((tmp_path / name / "jobs.parquet").read_bytes() for name in ("whole", "small"))
    assert whole == small
    assert [group.num_rows for group in _groups(tmp_path / "whole")] == [3, 4, 4, 4]
    assert list(read_table(tmp_path / "torn", "jobs")["policy"]) == ["a"] * 3 + ["b"] * 6 + ["c"] * 2


def test_the_only_part_file_of_a_table_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [job(f"job_{number:04d}", deadline=None if number % 2 else 7.0) for number in range(5)]
    for folder, parts in (("several", [rows[:2], rows[2:]]), ("only", [rows])):
        for part in parts:
            history = History(tmp_path / folder, "a", 0)
            history.append("jobs", part)
            history.close()
    assert merge(tmp_path / "several") == []
    monkeypatch.setattr("schedbed.scheduler.part_merge._read", None)
    assert merge(tmp_path / "only") == []
    several, only = ((tmp_path / name / "jobs.parquet").read_bytes() for name in ("several", "only"))
    assert several == only


def _groups(folder: Path) -> list[Any]:
    return fastparquet.ParquetFile(str(folder / "jobs.parquet")).row_groups
