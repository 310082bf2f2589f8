"""Text that a policy prints: accepted up to a limit and refused above it.

The JobTracker's own lines are not counted.
"""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest

from schedbed.scheduler.guard.call_record import CALL_RECORD, SIZE, OutputBound


@pytest.fixture
def in_a_call() -> Iterator[None]:
    CALL_RECORD.share(memoryview(bytearray(SIZE)))  # pyright: ignore[reportArgumentType]
    CALL_RECORD.enter(CALL_RECORD.number("decide (mine.py, line 7)"))
    yield
    CALL_RECORD.leave()
    CALL_RECORD.share(None)


def test_both_streams_of_a_policy_have_one_bound(in_a_call: None) -> None:
    out, error = io.StringIO(), io.StringIO()
    bound = OutputBound(most=10)
    bound.begin(out, error)
    print("12345", file=out, end="")
    print("67890", file=error, end="")
    with pytest.raises(PermissionError, match="more than 10 characters of output"):
        print("1", file=out)
    bound.begin(out, error)
    print("abc", file=out, end="")
    assert (out.getvalue(), error.getvalue()) == ("12345abc", "67890")


def test_what_others_write_is_not_counted() -> None:
    stream = io.TextIOWrapper(io.BytesIO(), write_through=True)
    OutputBound(most=10).begin(stream)
    print("x" * 100, file=stream, end="")
    assert stream.buffer.getvalue() == b"x" * 100  # pyright: ignore[reportAttributeAccessIssue]
