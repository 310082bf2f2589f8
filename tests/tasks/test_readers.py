"""A split owns the records that begin in it: each record is read exactly once for any choice of splits."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from schedbed.tasks.readers import TAIL_BYTES, raw_chunks, record_chunks, text_chunks


class File:
    """A file that is read in pieces of `piece` bytes; `furthest` is the largest offset that was read."""

    def __init__(self, data: bytes, piece: int) -> None:
        self.data = data
        self.piece = piece
        self.furthest = 0

    def read(self, start: int, end: int) -> Iterator[bytes]:
        assert 0 <= start < end <= len(self.data), "a reader asks for bytes that the file has"
        for low in range(start, end, self.piece):
            self.furthest = max(self.furthest, min(low + self.piece, end))
            yield self.data[low : min(low + self.piece, end)]


def splits_of(data: bytes, cuts: list[int]) -> list[tuple[int, int]]:
    edges = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    return [(low, high - low) for low, high in pairwise(edges)]


def lines_owned(data: bytes, offset: int, length: int) -> bytes:
    """Return the expected lines of a split: those whose first byte is in the split."""
    begins = [0, *(at + 1 for at, byte in enumerate(data) if byte == 10)]
    ends = [*begins[1:], len(data)]
    return b"".join(data[b:e] for b, e in zip(begins, ends, strict=True) if offset <= b < offset + length)


texts = st.lists(st.sampled_from([b"a", b"bc", b"\n", b"\r\n", b"\n\n", b"\x00\xff", b"long" * 9])).map(
    b"".join
)


@given(data=texts, cuts=st.lists(st.integers(1, 120), max_size=8), piece=st.integers(1, 50))
@example(data=b"a\nb", cuts=[2], piece=3)
@example(data=b"ab\n", cuts=[1, 2], piece=1)
@example(data=b"\n\n\n", cuts=[1, 2], piece=2)
@example(data=b"no newline at all", cuts=[3, 9], piece=4)
def test_each_line_goes_to_the_split_it_begins_in(data: bytes, cuts: list[int], piece: int) -> None:
    for offset, length in splits_of(data, cuts):
        chunks = list(text_chunks(File(data, piece).read, offset, length, len(data)))
        assert b"".join(chunks) == lines_owned(data, offset, length)
        assert all(chunk.endswith(b"\n") for chunk in chunks[:-1]) and all(chunks)


def test_a_line_longer_than_many_blocks_is_read_by_the_split_it_begins_in() -> None:
    data = b"x\n" + b"y" * 50_000 + b"\nz\n"
    owned = [
        b"".join(text_chunks(File(data, 777).read, at, 1000, len(data))) for at in range(0, len(data), 1000)
    ]
    assert owned[0] == data[:-2] and owned[-1] == b"z\n" and not any(owned[1:-1])


def test_no_more_than_a_tail_is_read_beyond_the_split() -> None:
    data = b"eight...\n" * 100_000
    file = File(data, 1 << 20)
    assert len(b"".join(text_chunks(file.read, 0, 100_000, len(data)))) == 100_008
    assert file.furthest <= 100_000 + TAIL_BYTES


@given(count=st.integers(0, 12), cuts=st.lists(st.integers(1, 1200), max_size=8), piece=st.integers(1, 333))
def test_each_record_goes_to_the_split_it_begins_in(count: int, cuts: list[int], piece: int) -> None:
    data = b"".join(bytes([65 + index]) * 100 for index in range(count))
    for offset, length in splits_of(data, cuts):
        chunks = list(record_chunks(File(data, piece).read, offset, length, len(data)))
        starts = range(-(-offset // 100) * 100, min(offset + length, len(data)), 100)
        assert b"".join(chunks) == b"".join(data[at : at + 100] for at in starts)
        assert all(len(chunk) % 100 == 0 for chunk in chunks)


def test_a_file_with_half_a_record_is_refused() -> None:
    with pytest.raises(ValueError, match="150 bytes, not a multiple of 100"):
        list(record_chunks(File(bytes(150), 100).read, 0, 100, 150))


def test_raw_is_the_split_itself() -> None:
    data = bytes(range(200))
    assert b"".join(raw_chunks(File(data, 7).read, 30, 50, 200)) == data[30:80]
    assert b"".join(raw_chunks(File(data, 7).read, 150, 100, 200)) == data[150:]
    assert not list(raw_chunks(File(data, 7).read, 200, 10, 200))
