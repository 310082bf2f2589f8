"""Block files: data is read as it was written, and damaged data is never returned."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedbed.tasks.blockfile import (
    CHUNK_BYTES,
    READ_BYTES,
    BlockWriter,
    CorruptBlock,
    crc_path,
    read_verified,
)

DATA = random.Random(1).randbytes(2 * READ_BYTES + 12_345)


def stored(path: Path, data: bytes = DATA, piece: int = 100_000) -> Path:
    with BlockWriter(path) as writer:
        for low in range(0, len(data), piece):
            writer.write(data[low : low + piece])
    assert writer.length == len(data)
    return path


@pytest.fixture(scope="module")
def block(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stored(tmp_path_factory.mktemp("blocks") / "blk_1")


@settings(max_examples=40)
@given(st.integers(0, len(DATA)), st.integers(0, len(DATA) + 10))
def test_any_range_is_read_back(block: Path, start: int, end: int) -> None:
    pieces = list(read_verified(block, start, end))
    assert b"".join(pieces) == DATA[start:end]
    assert all(0 < len(piece) <= READ_BYTES for piece in pieces)


@pytest.mark.parametrize("length", [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, READ_BYTES])
@pytest.mark.parametrize("piece", [1000, CHUNK_BYTES, 10**6])
def test_any_length_in_any_pieces_is_read_back(tmp_path: Path, length: int, piece: int) -> None:
    path = stored(tmp_path / "blk", DATA[:length], piece)
    assert b"".join(read_verified(path)) == DATA[:length]


@pytest.mark.parametrize("place", [0, CHUNK_BYTES, len(DATA) - 1])
def test_a_changed_byte_is_found_where_it_lies_and_nowhere_else(tmp_path: Path, place: int) -> None:
    path = stored(tmp_path / "blk")
    damaged = bytearray(DATA)
    damaged[place] ^= 4
    path.write_bytes(damaged)
    with pytest.raises(CorruptBlock, match=f"checksum of bytes from {place // CHUNK_BYTES * CHUNK_BYTES}"):
        list(read_verified(path))
    elsewhere = CHUNK_BYTES * 2 if place < CHUNK_BYTES * 2 else 0
    assert len(b"".join(read_verified(path, elsewhere, elsewhere + CHUNK_BYTES))) == CHUNK_BYTES


def test_a_cut_or_grown_block_and_missing_checksums_are_corrupt(tmp_path: Path) -> None:
    path = stored(tmp_path / "blk", DATA[: 3 * CHUNK_BYTES])
    for wrong in (DATA[: 2 * CHUNK_BYTES], DATA[: 3 * CHUNK_BYTES - 1], DATA[: 3 * CHUNK_BYTES + 1], b""):
        path.write_bytes(wrong)
        with pytest.raises(CorruptBlock):
            list(read_verified(path))
    crc_path(path).unlink()
    with pytest.raises(CorruptBlock, match="no usable checksums"):
        list(read_verified(path))


def test_a_missing_block_is_not_called_corrupt(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        list(read_verified(tmp_path / "none"))


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), BlockWriter(tmp_path / "blk") as writer:
        writer.write(b"half")
        raise RuntimeError
    assert not list(tmp_path.iterdir())


def test_nothing_is_there_before_the_writer_is_closed(tmp_path: Path) -> None:
    with BlockWriter(tmp_path / "blk") as writer:
        writer.write(DATA)
        assert not (tmp_path / "blk").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["blk", "blk.crc"]
