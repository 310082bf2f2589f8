"""Pieces that arrive one call at a time are one stream for the reader."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from schedbed.cluster.machines.piece_pipe import WAITING, PiecePipe


def test_the_pieces_arrive_whole_and_in_order() -> None:
    got: list[bytes] = []
    pipe = PiecePipe(got.extend)
    for number in range(20):
        pipe.put(b"%d" % number)
    pipe.end()
    assert got == [b"%d" % number for number in range(20)]


def test_no_more_pieces_than_stated_wait_in_memory() -> None:
    go = threading.Event()

    def late(pieces: Iterator[bytes]) -> None:
        go.wait()
        assert len(list(pieces)) == WAITING + 1

    pipe = PiecePipe(late)
    for _ in range(WAITING):
        pipe.put(b"x")
    third = threading.Thread(target=pipe.put, args=(b"x",))
    third.start()
    third.join(0.3)
    assert third.is_alive()
    go.set()
    third.join()
    pipe.end()


def test_what_the_reader_raises_reaches_who_brings_pieces() -> None:
    def broken(pieces: Iterator[bytes]) -> None:
        next(pieces)
        raise ValueError("no space left")

    pipe = PiecePipe(broken)

    def bring() -> None:
        for _ in range(20):
            pipe.put(b"x")
        pipe.end()

    with pytest.raises(ValueError, match="no space left"):
        bring()
