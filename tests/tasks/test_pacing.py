"""Rates are held to the byte on a clock that the test moves; the live tests hold real processes to a core's share."""

from __future__ import annotations

import os
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedbed.tasks.pacing import BURST_S, DATA_BURST_S, Budget, CpuPacer, next_tat


class Clock:
    """Time that passes only when somebody sleeps or works."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.cpu_s = 0.0

    def __call__(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now_s += seconds

    def work(self, cpu_s: float, share: float = 1.0) -> None:
        """Use the CPU, of which the host gives `share`."""
        self.cpu_s += cpu_s
        self.now_s += cpu_s / share


def a_budget(tmp_path: Path, clock: Clock, **rates: float | None) -> Budget:
    Budget.create(tmp_path / "budget", rates).close()
    return Budget(tmp_path / "budget", clock, clock.sleep)


@given(st.lists(st.tuples(st.floats(0, 10), st.floats(0.001, 100)), min_size=1), st.floats(0.1, 100))
def test_no_window_gets_more_than_its_rate_and_the_burst(
    charges: list[tuple[float, float]], rate: float
) -> None:
    now, tat, paid = 50.0, 0.0, 0.0
    for pause, amount in charges:
        now += pause
        tat = next_tat(tat, now, rate, amount)
        paid += amount
        assert tat >= 50.0 - BURST_S + paid / rate - 1e-6


def test_a_stream_gets_exactly_its_rate(tmp_path: Path) -> None:
    clock = Clock()
    budget = a_budget(tmp_path, clock, disk=1e6)
    for size in (100, 1_000_000, 300_000, 5):
        budget.take("disk", size)
    assert clock.now_s - 1000 == pytest.approx(1.300105 - DATA_BURST_S)
    assert budget.used("disk") == 1_300_105


def test_idle_time_is_not_saved_up(tmp_path: Path) -> None:
    clock = Clock()
    budget = a_budget(tmp_path, clock, rx=1000.0)
    budget.take("rx", 10)
    clock.sleep(3600)
    before = clock.now_s
    budget.take("rx", 1000)
    assert clock.now_s - before == pytest.approx(1.0 - DATA_BURST_S)


def test_streams_that_alternate_share_evenly_whatever_they_ask_for_at_a_time(tmp_path: Path) -> None:
    clock = Clock()
    budget = a_budget(tmp_path, clock, disk=1e6)
    small = [budget.reserve("disk", 1000) for _ in range(300)]
    assert small[-1] == pytest.approx(0.3 - DATA_BURST_S)
    assert [b - a for a, b in pairwise(small[250:])] == pytest.approx([0.001] * 49)


def test_a_stream_that_its_cpu_share_stops_now_and_then_still_gets_its_rate(tmp_path: Path) -> None:
    clock = Clock()
    budget = a_budget(tmp_path, clock, rx=1e6)
    for _ in range(50):
        budget.take("rx", 200_000)
        clock.sleep(0.08)
    assert clock.now_s - 1000 == pytest.approx(10.0, rel=0.02)


@pytest.mark.parametrize("rate", [None, 0.0])
def test_no_rate_is_no_limit_but_use_is_counted(tmp_path: Path, rate: float | None) -> None:
    clock = Clock()
    budget = a_budget(tmp_path, clock, tx=rate)
    budget.take("tx", 10**12)
    assert (clock.now_s, budget.used("tx")) == (1000.0, 10**12)


def test_a_changed_rate_holds_at_once_and_for_all_who_opened_the_file(tmp_path: Path) -> None:
    clock = Clock()
    budget, other = a_budget(tmp_path, clock, disk=1000.0), Budget(tmp_path / "budget", clock, clock.sleep)
    other.set_rate("disk", 500.0)
    assert (budget.rate("disk"), budget.factor("disk"), budget.factor("cpu")) == (500.0, 0.5, 1.0)
    budget.take("disk", 1000)
    assert clock.now_s - 1000 == pytest.approx(2.0 - DATA_BURST_S)
    assert other.used("disk") == 1000
    assert other.reserve("disk", 5) == pytest.approx(0.01)


def test_an_unknown_budget_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="unknown budget 'ram', expected one of cpu, disk, tx, rx"):
        Budget.create(tmp_path / "budget", {"ram": 1})


def a_pacer(tmp_path: Path, clock: Clock, core_speed: float, node_rate: float) -> CpuPacer:
    budget = a_budget(tmp_path, clock, cpu=node_rate)
    return CpuPacer(budget, core_speed, lambda: clock.cpu_s, clock, clock.sleep)


@pytest.mark.parametrize("tick_s", [0.005, 0.01, 0.4])
def test_an_attempt_gets_one_emulated_core_however_long_its_steps(tmp_path: Path, tick_s: float) -> None:
    clock = Clock()
    pacer = a_pacer(tmp_path, clock, 0.1, 0.4)
    for _ in range(round(4 / tick_s)):
        clock.work(tick_s)
        pacer.settle()
    assert clock.cpu_s / (clock.now_s - 1000) == pytest.approx(0.1, rel=0.01)


def test_a_node_whose_cores_are_fewer_than_its_attempts_holds_them_to_its_cores(tmp_path: Path) -> None:
    clock = Clock()
    pacer = a_pacer(tmp_path, clock, 0.2, 0.05)
    for _ in range(200):
        clock.work(0.005)
        pacer.settle()
    assert clock.cpu_s / (clock.now_s - 1000) == pytest.approx(0.05, rel=0.03)


def test_a_slowed_node_slows_its_emulated_cores(tmp_path: Path) -> None:
    clock = Clock()
    budget = a_budget(tmp_path, clock, cpu=0.8)
    budget.set_rate("cpu", 0.8 * 0.25)
    pacer = CpuPacer(budget, 0.4, lambda: clock.cpu_s, clock, clock.sleep)
    for _ in range(400):
        clock.work(0.005)
        pacer.settle()
    assert clock.cpu_s / (clock.now_s - 1000) == pytest.approx(0.1, rel=0.01)


def test_a_signal_within_a_charge_does_not_sleep_with_the_lock(tmp_path: Path) -> None:
    clock = Clock()
    budget = a_budget(tmp_path, clock, cpu=0.1)
    pacer = CpuPacer(budget, 0.1, lambda: clock.cpu_s, clock, clock.sleep)
    clock.work(1.0)
    budget.busy = True
    pacer.settle()
    assert clock.now_s == 1001.0
    budget.busy = False
    pacer.settle()
    assert clock.now_s == pytest.approx(1010.0, abs=0.05)


def _burn(path: Path, numpy_calls: bool) -> float:
    """In a child: the achieved share of a core over 0.25 s of CPU time."""
    pacer = CpuPacer(Budget.open(path), 0.2)
    pacer.start()
    began, cpu = time.monotonic(), time.process_time()
    data = np.arange(400_000.0)
    while time.process_time() - cpu < 0.25:
        np.sort(np.sin(data)) if numpy_calls else sum(range(2000))
    pacer.stop()
    return (time.process_time() - cpu) / (time.monotonic() - began)


@pytest.mark.live
def test_real_processes_are_held_to_their_share_of_a_core(tmp_path: Path) -> None:
    Budget.create(tmp_path / "budget", {"cpu": 0.4}).close()
    pipes: list[tuple[int, int]] = []
    for numpy_calls in (False, True):
        read_end, write_end = os.pipe()
        pid = os.fork()
        if not pid:
            os.write(write_end, str(_burn(tmp_path / "budget", numpy_calls)).encode())
            os._exit(0)
        os.close(write_end)
        pipes.append((pid, read_end))
    shares: list[float] = []
    for pid, read_end in pipes:
        with os.fdopen(read_end) as pipe:
            shares.append(float(pipe.read()))
        os.waitpid(pid, 0)
    # A busy host may give less than was declared, but pacing must never give more.
    assert max(shares) < 0.21, shares
    assert Budget.open(tmp_path / "budget").used("cpu") == pytest.approx(0.5, rel=0.2)
