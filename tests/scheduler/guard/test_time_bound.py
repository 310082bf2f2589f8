"""The limit on the time of a policy's call: time without a CPU does not count, and waiting does."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from multiprocessing import get_context
from pathlib import Path
from threading import get_native_id

import pytest

from schedbed.scheduler.guard import time_bound
from schedbed.scheduler.guard.blame import PolicySource
from schedbed.scheduler.guard.time_bound import Overdue, TimeBound, native_id, run_queue_s


@pytest.fixture
def bound(monkeypatch: pytest.MonkeyPatch) -> Iterator[TimeBound]:
    monkeypatch.setattr(time_bound, "TICK_S", 0.01)
    made = TimeBound()
    made.limit_of = lambda _: 0.1
    made.watch()
    yield made
    made.limit_of = lambda _: 1e9


def sleep(seconds: float) -> None:
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s:
        time.sleep(0.001)


def test_a_call_that_waits_is_overdue(bound: TimeBound) -> None:
    with pytest.raises(Overdue):
        bound.call("decide", PolicySource("mine.py"), sleep, (60.0,))


def test_a_call_without_a_cpu_is_not_overdue(bound: TimeBound, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_bound, "run_queue_s", lambda _: time.monotonic())
    bound.call("decide", PolicySource("mine.py"), sleep, (0.5,))


def spin() -> None:
    while True:
        pass


def test_the_kernel_counts_the_time_without_a_cpu() -> None:
    thread, before = get_native_id(), os.sched_getaffinity(0)
    assert native_id(time_bound.get_ident()) == thread and run_queue_s(0) == 0.0
    if not Path(f"/proc/self/task/{thread}/schedstat").exists():
        pytest.skip("this kernel does not count it")
    other = get_context("fork").Process(target=spin, daemon=True)
    os.sched_setaffinity(0, {min(before)})
    try:
        other.start()
        first_s = run_queue_s(thread)
        end_s = time.monotonic() + 20.0
        while run_queue_s(thread) == first_s and time.monotonic() < end_s:
            pass
        assert run_queue_s(thread) > first_s
    finally:
        os.sched_setaffinity(0, before)
        other.kill()
        other.join()
