"""Tests that the groups of rows in a table's file depend only on the rows."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

from schedbed.scheduler import coded_columns
from schedbed.scheduler.coded_columns import AlikeGroups, TableFile, checked_groups, is_coded

NODES = pd.Series([f"n{number % 3}" for number in range(20)], dtype="str")
TASKS = pd.Series([f"task_{number}" for number in range(20)], dtype="str")
TIMES = pd.Series(range(20), dtype="float64")


def parts(sizes: list[int], *, coded: bool) -> list[pd.DataFrame]:
    """Return the twenty rows in parts of these sizes. With `coded`, texts are categorical, in another order."""
    data = pd.DataFrame({"node": NODES, "task": TASKS, "t": TIMES})
    if coded:
        data["node"] = pd.Categorical(NODES, ["n9", "n2", "n1", "n0"])
        data["task"] = pd.Categorical(TASKS, TASKS[::-1])
    ends = [sum(sizes[: number + 1]) for number in range(len(sizes))]
    pieces = zip(ends, sizes, strict=True)
    return [data.iloc[end - size : end].reset_index(drop=True) for end, size in pieces]


@pytest.fixture(autouse=True)
def few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Store the texts of groups of six rows or more as codes."""
    monkeypatch.setattr(coded_columns, "CODED_ROWS", 6)


def groups_of(given: list[pd.DataFrame], rows: int) -> list[pd.DataFrame]:
    groups, made = AlikeGroups(rows), list[pd.DataFrame]()
    for data in given:
        groups.add(data)
        made += groups.whole()
    return [*made, *groups.rest()]


def written(path: Path, given: list[pd.DataFrame]) -> bytes:
    with TableFile(path, given[0].astype({"node": "str", "task": "str"})) as file:
        for group in groups_of(given, 8):
            file.add(group)
    return path.read_bytes()


@pytest.mark.parametrize("sizes", [[20], [1, 19], [7, 7, 6], [8, 8, 4], [5, 5, 5, 5]])
@pytest.mark.parametrize("coded", [False, True])
def test_a_file_depends_only_on_the_rows(tmp_path: Path, sizes: list[int], coded: bool) -> None:
    first = written(tmp_path / "first", parts([3, 17], coded=False))
    assert written(tmp_path / "other", parts(sizes, coded=coded)) == first


def test_rows_come_in_equal_groups_and_in_order() -> None:
    groups = groups_of(parts([7, 7, 6], coded=False), 8)
    assert [len(group) for group in groups] == [8, 8, 4]
    plain = pd.concat([group.astype({"node": "str"}) for group in groups], ignore_index=True)
    assert_frame_equal(plain, parts([20], coded=False)[0])


def test_only_texts_that_repeat_in_large_groups_are_codes() -> None:
    groups = groups_of(parts([20], coded=True), 8)
    assert [is_coded(group["node"]) for group in groups] == [True, True, False]
    assert not any(is_coded(group["task"]) for group in groups)
    assert list(groups[0]["node"].cat.categories) == ["n0", "n1", "n2"]


def test_a_group_whose_writing_failed_is_yielded_again() -> None:
    groups = AlikeGroups(8)
    groups.add(parts([20], coded=False)[0])
    first = next(groups.whole())
    assert len(groups) == 20  # The writer of the first group has raised an error.
    again = list(groups.whole())
    assert_frame_equal(again[0], first)
    assert [len(group) for group in again] == [8, 8] and len(groups) == 4


@pytest.mark.parametrize("coded", [False, True])
def test_a_copied_group_is_as_if_it_had_been_written(tmp_path: Path, coded: bool) -> None:
    given = groups_of(parts([20], coded=coded), 8)
    for number, group in enumerate(given):
        with TableFile(tmp_path / str(number), group) as file:
            file.add(group)
    with TableFile(tmp_path / "copied", given[0]) as copied, TableFile(tmp_path / "plain", given[0]) as plain:
        for number, group in enumerate(given):
            copied.add_copy(*checked_groups(tmp_path / str(number)))
            plain.add(group)
    assert (tmp_path / "copied").read_bytes() == (tmp_path / "plain").read_bytes()


def test_a_changed_byte_of_a_group_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "part"
    written(path, parts([20], coded=True))
    checked_groups(path)
    content = bytearray(path.read_bytes())
    content[60] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match="checksum"):
        checked_groups(path)


def test_texts_of_rows_that_are_gone_are_not_kept() -> None:
    groups, most, count = AlikeGroups(100), 0, 0
    for number in range(31):
        tasks = pd.Categorical([f"task_{number}_{place % 60}" for place in range(120)])
        groups.add(pd.DataFrame({"task": tasks}))
        count += sum(len(group) for group in groups.whole())
        most = max([most, *(len(data["task"].cat.categories) for data in groups._pending)])
    assert count == 3700 and len(groups) == 31 * 120 - 3700 and most <= 160
