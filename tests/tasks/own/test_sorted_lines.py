"""Every way of merging sorted lines is the same as sorting all lines, also with bounded memory."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedbed.tasks.own import sorted_lines
from schedbed.tasks.own.sorted_lines import LineCollector, SortedLines, by_crc

LINES = st.lists(st.binary(max_size=12).map(lambda line: line.replace(b"\n", b"")), max_size=60)


def run_of(lines: Sequence[bytes]) -> bytes:
    """Return the lines as a sorted run."""
    return b"".join(line + b"\n" for line in sorted(lines))


@given(st.lists(LINES, min_size=1, max_size=5), st.integers(1, 40))
def test_merging_by_windows_is_sorting(runs: list[list[bytes]], window: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorted_lines, "WINDOW_BYTES", window)
        patch.setattr(sorted_lines, "WINDOW_MIN_BYTES", 1)
        patch.setattr(sorted_lines, "PIECE_BYTES", 16)
        merged = list(SortedLines().combine([run_of(lines) for lines in runs]))
    assert b"".join(map(bytes, merged)) == run_of([line for lines in runs for line in lines])


@given(LINES.filter(bool), st.binary(max_size=12))
def test_upto_takes_the_lines_that_are_not_above_a_key(lines: list[bytes], key: bytes) -> None:
    key = key.replace(b"\n", b"")
    run = run_of(lines)
    assert run[: SortedLines().upto(memoryview(run), key)] == run_of([line for line in lines if line <= key])
    assert SortedLines().last_key(run) == max(lines)
    assert SortedLines().records(run) == len(lines) and SortedLines().whole(run + b"x") == len(run)


@given(LINES, st.integers(1, 4))
def test_a_collector_deals_each_key_to_one_reduce(lines: list[bytes], reduces: int) -> None:
    collector = LineCollector(reduces)
    for line in lines:
        collector.feed(line + b"\n")
    assert (collector.buffered > 0) == bool(lines)
    for number, part in enumerate(collector.drain()):
        mine = [line for line in lines if by_crc(line.partition(b"\t")[0], reduces) == number]
        assert b"".join(map(bytes, part)) == run_of(mine)
    assert collector.buffered == 0


def test_many_equal_lines_come_in_pieces_of_bounded_size() -> None:
    collector = LineCollector(1)
    for _ in range(200):
        collector.feed(b"the\t1\n" * 1000)
    pieces = [bytes(piece) for piece in collector.drain()[0]]
    assert b"".join(pieces) == b"the\t1\n" * 200_000
    assert max(map(len, pieces)) <= sorted_lines.PIECE_BYTES


def test_a_combiner_may_write_in_any_order() -> None:
    collector = LineCollector(1, combine=lambda pieces: iter([b"b\t2\n", b"a\t1\n"]))
    collector.feed(b"x\n")
    assert b"".join(map(bytes, collector.drain()[0])) == b"a\t1\nb\t2\n"
    assert list(collector.drain()[0]) == []  # nothing in, no combiner
