"""The checks of applications' outputs find wrong outputs and accept right ones."""

from __future__ import annotations

from collections import Counter

import pytest

from schedbed.tasks.appkit.app_catalogue import generate
from schedbed.tasks.apps.sort import check_sorted, record_sum
from schedbed.tasks.apps.wordcount import check_wordcount, count_words
from schedbed.tasks.spill_formats import encode_counts

ROWS = sorted(b"".join(generate("records", 3000, 1))[at : at + 100] for at in range(0, 3000, 100))
SUM = record_sum([b"".join(ROWS)])


def check(*parts: list[bytes]) -> str | None:
    return check_sorted([[b"".join(part)] for part in parts], SUM)


def test_sorted_parts_pass_however_they_are_cut_in_pieces() -> None:
    data = b"".join(ROWS)
    assert check(ROWS[:11], [], ROWS[11:]) is None
    assert check_sorted([[data[:30], data[30:455], data[455:]]], SUM) is None


@pytest.mark.parametrize(
    ("parts", "complaint"),
    [
        ([ROWS[5:], ROWS[:5]], "part 1: record 25 of the output is smaller"),
        ([ROWS[:-1]], "29 records in the output, 30 in the input"),
        ([ROWS[:3], ROWS[2:]], "31 records in the output"),
        ([[ROWS[0][:99] + b"!", *ROWS[1:]]], "the checksum"),
        ([[*ROWS[:3], ROWS[3][:40]]], "part 0: 40 bytes after the last whole record"),
    ],
)
def test_unsorted_lost_doubled_and_changed_records_are_found(
    parts: list[list[bytes]], complaint: str
) -> None:
    found = check(*parts)
    assert found is not None and found.startswith(complaint)


def test_words_are_counted_across_pieces() -> None:
    text = b"one two\ttwo\r\nthree\x0bone\x0ctwo"
    for size in range(1, 9):
        assert count_words([text[at : at + size] for at in range(0, len(text), size)]) == Counter(
            text.split()
        )


@pytest.mark.parametrize(
    ("parts", "complaint"),
    [
        ([b"a\t2\nb\t1\n"], None),
        ([b"b\t1\n", b"", b"a\t2\n"], None),
        ([b"a\t2\n"], "'b' was counted 0 times, it is there 1 times"),
        ([b"a\t2\nb\t1\nc\t1\n"], "'c' was counted 1 times, it is there 0 times"),
        ([b"a\t3\nb\t1\n"], "'a' was counted 3 times"),
        ([b"b\t1\na\t2\n"], "part 0: its words are not sorted"),
        ([b"a\t1\na\t1\nb\t1\n"], "part 0: its words are not sorted, or not each on one line"),
        ([b"a\t2\n", b"a\t2\nb\t1\n"], "part 1: 'a' is in an earlier part"),
        ([b"a two\n"], "part 0: "),
    ],
)
def test_wordcounts_are_checked(parts: list[bytes], complaint: str | None) -> None:
    found = check_wordcount([b"a b a"], [[part] for part in parts])
    assert found is None if complaint is None else found is not None and found.startswith(complaint)


def test_what_wordcount_writes_passes() -> None:
    text = b"".join(generate("text", 20_000, 2))
    assert check_wordcount([text], [[encode_counts(Counter(text.split()))]]) is None
