"""Units of durations, sizes and rates: accepted spellings, and the messages for wrong ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedbed.tasks.units import (
    format_bytes,
    format_duration,
    format_rate,
    parse_duration,
    parse_rate,
    parse_size,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("500ms", 0.5), ("5s", 5), ("10m", 600), ("2h", 7200), (3, 3), (0.25, 0.25), ("1.5 m", 90), ("7", 7)],
)
def test_durations(text, seconds):
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("64MiB", 2**26),
        ("1GB", 10**9),
        ("512kB", 512_000),
        ("1.5KiB", 1536),
        (17, 17),
        ("3B", 3),
        ("1e3 B", 1000),
    ],
)
def test_sizes(text, count):
    assert parse_size(text) == count


@pytest.mark.parametrize(
    ("text", "bytes_per_s"),
    [("40MB/s", 40e6), ("100Mbit/s", 12.5e6), ("1Gbit/s", 125e6), ("2MiB/s", 2**21), (99, 99), ("8bit/s", 1)],
)
def test_rates(text, bytes_per_s):
    assert parse_rate(text) == bytes_per_s


def test_faults_name_the_value_and_what_was_expected():
    with pytest.raises(ValueError, match=r"^'30 parsecs' is not a duration \(such as 500ms, 5s, 10m, 2h\)$"):
        parse_duration("30 parsecs")
    with pytest.raises(ValueError, match=r"^'64Mb' is not a size"):
        parse_size("64Mb")
    with pytest.raises(ValueError, match=r"^'40MB' is not a rate"):
        parse_rate("40MB")


@given(
    st.one_of(st.text(max_size=12), st.floats(), st.integers(), st.booleans(), st.none(), st.lists(st.none()))
)
def test_anything_is_a_number_or_a_value_error(value):
    for parse in (parse_duration, parse_size, parse_rate):
        try:
            assert parse(value) >= 0
        except ValueError as error:
            assert "is not a" in str(error) or "is out of bounds" in str(error)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.84, "840ms"),
        (0.9999, "1.0s"),
        (12.44, "12.4s"),
        (59.97, "1m00s"),
        (185, "3m05s"),
        (7440, "2h04m"),
        (-2, "-2.0s"),
    ],
)
def test_durations_for_people(seconds, text):
    assert format_duration(seconds) == text


def test_bytes_for_people():
    assert format_bytes(0) == "0 B"
    assert format_bytes(2**26) == "64.0 MiB"
    assert format_bytes(3 * 2**50) == "3072.0 TiB"
    assert format_rate(2**20) == "1.0 MiB/s"
