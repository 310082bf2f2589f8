"""The thread that writes rows while the compiled loop runs."""

from __future__ import annotations

import threading
from functools import partial

import pytest

from schedbed.scheduler.row_thread import WAITING_MAX, RowThread


def test_calls_are_made_in_order_by_another_thread() -> None:
    made: list[int] = []
    threads: set[int] = set()
    with RowThread() as thread:
        for number in range(20):
            thread.do(partial(made.append, number))
            thread.do(lambda: threads.add(threading.get_ident()))
        thread.finish()
        assert made == list(range(20))
    assert len(threads) == 1 and threading.get_ident() not in threads


def test_only_a_few_calls_wait() -> None:
    go_on, begun, given = threading.Event(), threading.Event(), threading.Event()

    def slow() -> None:
        begun.set()
        go_on.wait()

    def give() -> None:
        for _ in range(WAITING_MAX + 1):
            thread.do(lambda: None)
        given.set()

    with RowThread() as thread:
        assert thread.is_idle
        thread.do(slow)
        begun.wait()
        assert not thread.is_idle
        giver = threading.Thread(target=give)
        giver.start()
        assert not given.wait(0.2)
        go_on.set()
        giver.join()
        assert given.is_set()


def test_the_error_of_a_call_is_raised_and_the_other_calls_are_made() -> None:
    made: list[str] = []

    def full() -> None:
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space left"), RowThread() as thread:
        thread.do(full)
        thread.do(partial(made.append, "kept"))
        thread.finish()
    assert made == ["kept"]
