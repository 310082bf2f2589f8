"""Merging of runs in memory and on disk: the result is one sorted run, however small the buffers."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedbed.tasks import spill
from schedbed.tasks.spill import FileRun, LocalFile, Run, buffer_bytes, merge_runs
from schedbed.tasks.spill_formats import (
    CountLines,
    RunFormat,
    SortedRecords,
    cut_by_key,
    encode_counts,
    order_of,
)
from tests.harness.memory_node import FakeNode

words = st.binary(min_size=1, max_size=5).filter(lambda word: b"\n" not in word)
tallies = st.lists(st.dictionaries(words, st.integers(1, 9), max_size=20), min_size=1, max_size=6)


def on_disk(folder: Path, runs: list[bytes]) -> list[Run]:
    """Write every second run to one file; return the runs, on disk and in memory by turns."""
    file = LocalFile(folder / "runs", FakeNode(folder))
    for data in runs:
        file.write(data)
        file.end_partition()
    file.close()
    return [file.run(index) if index % 2 == 0 else data for index, data in enumerate(runs)]


def merged(form: RunFormat, runs: list[bytes], memory_bytes: int, window: int) -> bytes:
    before, spill.WINDOW_MIN_BYTES = spill.WINDOW_MIN_BYTES, window
    try:
        with tempfile.TemporaryDirectory() as folder:
            return b"".join(merge_runs(form, on_disk(Path(folder), runs), memory_bytes, lambda _: None))
    finally:
        spill.WINDOW_MIN_BYTES = before


@settings(deadline=None)
@given(tallies, st.sampled_from([0, 50, 10**6]), st.integers(1, 40))
def test_counts_are_added_in_order(counts: list[dict[bytes, int]], memory_bytes: int, window: int) -> None:
    expected = Counter()
    for each in counts:
        expected.update(each)
    assert merged(CountLines(), [encode_counts(c) for c in counts], memory_bytes, window) == encode_counts(
        expected
    )


@settings(deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 6), st.sampled_from([0, 1000, 10**6]), st.integers(1, 500))
def test_records_are_merged_in_order(seed: int, count: int, memory_bytes: int, window: int) -> None:
    coin = random.Random(seed)
    runs = [
        sorted(bytes([coin.randrange(3)]) * 98 + coin.randbytes(2) for _ in range(coin.randrange(9)))
        for _ in range(count)
    ]
    data = merged(SortedRecords(), [b"".join(run) for run in runs], memory_bytes, window)
    assert data == b"".join(sorted(row for run in runs for row in run))


def test_reading_back_from_disk_is_charged(tmp_path: Path) -> None:
    charged: list[int] = []
    runs: list[bytes] = [encode_counts({b"%03d" % n: 1 for n in range(k, 900, 3)}) for k in range(3)]
    for memory_bytes in (0, 10**6):
        charged.clear()
        assert (
            len(b"".join(merge_runs(CountLines(), on_disk(tmp_path, runs), memory_bytes, charged.append)))
            == 5400
        )
        assert sum(charged) == len(runs[0]) + len(runs[2])


def test_a_run_that_was_cut_short_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "run").write_bytes(b"a\t1\n")
    with pytest.raises(OSError, match="run ends before byte 8"):
        list(merge_runs(CountLines(), [FileRun(tmp_path / "run", 0, 8)], 100, lambda _: None))


@given(
    st.lists(st.sampled_from([b"\x00", b"\x01", b"\xff", b"\x80"]), min_size=0, max_size=40), st.booleans()
)
def test_rows_are_ordered_by_all_their_bytes(lasts: list[bytes], merging: bool) -> None:
    rows = [b"k" * 8 + last + b"\x00" * 90 + lasts[-1 - index] for index, last in enumerate(lasts)]
    array = np.frombuffer(b"".join(rows), dtype=np.uint8).reshape(-1, 100)
    assert [rows[index] for index in order_of(array, merging)] == sorted(rows)


def test_cutting_by_key_puts_a_boundary_in_the_upper_part() -> None:
    rows = [bytes([n]) * 100 for n in (3, 1, 2, 5)]
    array = np.frombuffer(b"".join(rows), dtype=np.uint8).reshape(-1, 100)
    parts = cut_by_key(array, order_of(array), [b"\x02" * 10, b"\x02" * 9 + b"\x03", b"\x09" * 10])
    assert [[rows[index][0] for index in part] for part in parts] == [[1], [2], [3, 5], []]


def test_buffers_keep_to_a_quarter_of_the_memory() -> None:
    assert buffer_bytes(64 << 20, 1 << 30) == 64 << 20
    assert buffer_bytes(64 << 20, 128 << 20) == 32 << 20
    assert buffer_bytes(64 << 20, 1 << 20) == 4 << 20
