"""Rate limits, tested to the byte on a fake clock, and CPU limits, tested on real processes."""

from __future__ import annotations

import os
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedbed.tasks.pacing import (
    CATCH_UP_S,
    CPU_BANK_S,
    EXPIRES_S,
    PLACES,
    Budget,
    CpuPacer,
    cpu_debt_s,
    next_tat,
    own_cpu_s,
    stream_since,
)


class Clock:
    """A clock that advances only when a process sleeps or works."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.cpu_s = 0.0

    def __call__(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now_s += seconds

    def work(self, cpu_s: float, share: float = 1.0) -> None:
        """Use `cpu_s` seconds of CPU, while the host gives the process the share `share` of a core."""
        self.cpu_s += cpu_s
        self.now_s += cpu_s / share


def a_budget(tmp_path: Path, clock: Clock, **rates: float | None) -> Budget:
    Budget.create(tmp_path / "budget", rates).close()
    return Budget(tmp_path / "budget", clock, clock.sleep)


@given(st.lists(st.tuples(st.floats(0, 10), st.floats(0.001, 100)), min_size=1), st.floats(0.1, 100))
def test_no_window_gets_more_than_its_rate(charges: list[tuple[float, float]], rate: float) -> None:
    now, tat, paid = 50.0, 0.0, 0.0
    for pause, amount in charges:
        now += pause
        tat = next_tat(tat, now, rate, amount)
        paid += amount
        assert tat >= 50.0 + paid / rate - 1e-6


@given(
    idle_s=st.floats(0, 3600),
    sizes=st.lists(st.floats(1, 2e7), min_size=1, max_size=20),
    stalls=st.lists(st.floats(0, CATCH_UP_S), min_size=20, max_size=20),
    rate=st.floats(1e5, 1e9),
)
def test_a_stream_takes_its_bytes_over_its_rate_however_long_the_bucket_was_idle(
    idle_s: float, sizes: list[float], stalls: list[float], rate: float
) -> None:
    """The duration of a stream is its number of bytes divided by the rate, even if the stream stalls.

    Stalls cost no time as long as the stream is at most `CATCH_UP_S` seconds late.
    """
    began = now = tat = level = 100.0 + idle_s
    behind_s = worked_s = 0.0
    for size, stall_s in zip(sizes, stalls, strict=False):
        if behind_s + stall_s <= CATCH_UP_S:
            now += stall_s
            worked_s += stall_s
        level = tat = next_tat(tat, stream_since(level, now), rate, size)
        now = max(now, tat)
        behind_s = now - tat
        assert now - began >= sum(sizes[: sizes.index(size) + 1]) / rate - 1e-6
    assert now - began == pytest.approx(max(sum(sizes) / rate, now - began), rel=1e-9)
    assert tat - began == pytest.approx(sum(sizes) / rate, rel=1e-6)


@given(
    steps=st.lists(
        st.tuples(st.integers(0, 3), st.floats(0, 1), st.floats(1, 1e6), st.booleans()),
        min_size=1,
        max_size=60,
    )
)
def test_streams_together_never_get_more_than_the_rate_and_what_may_be_made_up_for(
    steps: list[tuple[int, float, float, bool]],
) -> None:
    """In any period, all streams together have at most the rate, plus what it allows in `CATCH_UP_S` seconds.

    This holds in whatever order streams charge, pause and restart.
    """
    now, tat, rate = 100.0, 0.0, 1e6
    levels: dict[int, float] = {}
    log: list[tuple[float, float, float]] = []  # when charged, when paid, how much
    for stream, pause_s, amount, anew in steps:
        now += pause_s
        if anew or stream not in levels:
            levels[stream] = now
        tat = levels[stream] = next_tat(tat, stream_since(levels[stream], now), rate, amount)
        log.append((now, tat, amount))
    for first, (since, _, _) in enumerate(log):
        charged = 0.0
        for _, paid_at, amount in log[first:]:
            charged += amount
            assert charged <= (paid_at - since + CATCH_UP_S) * rate + 1e-3


@pytest.mark.parametrize("idle_s", [0.0, 0.1, 3600.0])
@pytest.mark.parametrize("size", [1e6, 2e6, 4e6, 8e6, 16e6])
@pytest.mark.parametrize("rate", [12.5e6, 40e6])
def test_a_transfer_takes_its_size_over_the_rate_after_any_pause(
    tmp_path: Path, rate: float, size: float, idle_s: float
) -> None:
    clock = Clock()
    budget = a_budget(tmp_path, clock, disk=rate)
    budget.stream("disk").take(10)
    clock.now_s += idle_s
    before = clock.now_s
    budget.stream("disk").take(size)
    assert clock.now_s - before == pytest.approx(size / rate, rel=1e-4)
    assert budget.used("disk") == size + 10


def test_pieces_are_charged_as_they_come(tmp_path: Path) -> None:
    clock = Clock()
    budget = a_budget(tmp_path, clock, disk=1e6)
    stream = budget.stream("disk")
    for size in (100, 1_000_000, 300_000, 5):
        stream.take(size)
    assert clock.now_s - 1000 == pytest.approx(1.300105)
    assert budget.used("disk") == 1_300_105


def test_streams_that_alternate_share_evenly_whatever_they_ask_for_at_a_time(tmp_path: Path) -> None:
    clock = Clock()
    budget = a_budget(tmp_path, clock, disk=1e6)
    one, other = budget.stream("disk"), budget.stream("disk")
    waits = [stream.reserve(1000) for _ in range(150) for stream in (one, other)]
    assert waits[-1] == pytest.approx(0.3)
    assert [b - a for a, b in pairwise(waits)] == pytest.approx([0.001] * 299)


@pytest.mark.parametrize("share", [0.05, 0.1])
def test_a_stream_that_its_cpu_share_stops_now_and_then_still_gets_its_rate(
    tmp_path: Path, share: float
) -> None:
    """A stream has its full rate although a CPU limit often stops its process for a long time.

    Each second, the stream uses half of its process's share, in ticks of 8 ms of CPU.
    """
    clock = Clock()
    budget = a_budget(tmp_path, clock, rx=1e6)
    stream, tick_s = budget.stream("rx"), 0.008
    for _ in range(50):
        stream.take(2e6 * tick_s / share)
        clock.sleep(tick_s / share)
    assert clock.now_s - 1000 == pytest.approx(50 * 2 * tick_s / share, rel=0.02)


def test_a_stream_that_computes_between_its_pieces_overlaps_both(tmp_path: Path) -> None:
    clock = Clock()
    budget = a_budget(tmp_path, clock, disk=1e6)
    stream = budget.stream("disk")
    for _ in range(20):
        stream.take(30_000)
        clock.sleep(0.05)
    assert clock.now_s - 1000 == pytest.approx(20 * 0.05 + 0.03)


def test_a_stream_that_stood_still_for_long_makes_up_for_a_part_only(tmp_path: Path) -> None:
    clock = Clock()
    budget = a_budget(tmp_path, clock, disk=1e6)
    stream = budget.stream("disk")
    clock.sleep(60)
    before = clock.now_s
    stream.take(1e6)
    assert clock.now_s - before == pytest.approx(1.0 - CATCH_UP_S)


def test_what_one_stream_misses_another_may_use_and_the_first_has_lost(tmp_path: Path) -> None:
    clock = Clock()
    budget = a_budget(tmp_path, clock, disk=1e6)
    one, other = budget.stream("disk"), budget.stream("disk")
    other.take(200_000)
    before = clock.now_s
    one.take(100_000)
    assert clock.now_s - before == pytest.approx(0.1)


def test_cpu_time_is_paid_for_while_a_transfer_waits_anyway(tmp_path: Path) -> None:
    clock = Clock()
    budget = a_budget(tmp_path, clock, disk=1e6, cpu=1.0)
    pacer = CpuPacer(budget, 0.1, lambda: clock.cpu_s, clock, clock.sleep)
    stream = budget.stream("disk")
    for _ in range(50):
        clock.work(0.001)  # 10 ms on this core
        stream.take(20_000, pacer.settle)
    assert clock.now_s - 1000 == pytest.approx(50 * 0.02)


@pytest.mark.parametrize("rate", [None, 0.0])
def test_no_rate_is_no_limit_but_use_is_counted(tmp_path: Path, rate: float | None) -> None:
    clock = Clock()
    budget = a_budget(tmp_path, clock, tx=rate)
    budget.stream("tx").take(10**12)
    assert (clock.now_s, budget.used("tx")) == (1000.0, 10**12)


def test_a_changed_rate_holds_at_once_and_for_all_who_opened_the_file(tmp_path: Path) -> None:
    clock = Clock()
    budget, other = a_budget(tmp_path, clock, disk=1000.0), Budget(tmp_path / "budget", clock, clock.sleep)
    other.set_rate("disk", 500.0)
    assert (budget.rate("disk"), budget.factor("disk"), budget.factor("cpu")) == (500.0, 0.5, 1.0)
    budget.stream("disk").take(1000)
    assert clock.now_s - 1000 == pytest.approx(2.0)
    assert other.used("disk") == 1000
    assert other.stream("disk").reserve(5) == pytest.approx(0.01)


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


@pytest.mark.parametrize("used_s", [0.05, 0.0123, 1.0])
def test_an_attempt_that_ends_has_paid_for_all_of_its_cpu_time(tmp_path: Path, used_s: float) -> None:
    clock = Clock()
    pacer = a_pacer(tmp_path, clock, 0.05, 1.0)
    for _ in range(10):
        clock.work(used_s / 10)
    pacer.settle()
    assert clock.now_s - 1000 == pytest.approx(used_s / 0.05, abs=CPU_BANK_S)


@given(st.floats(0, 100), st.floats(0.01, 1), st.floats(0, 1000))
def test_a_quota_that_gave_too_much_at_once_is_made_up_for(
    used_s: float, speed: float, elapsed_s: float
) -> None:
    owed_s = cpu_debt_s(used_s, speed, elapsed_s)
    assert owed_s >= 0
    assert (elapsed_s + owed_s) * speed >= used_s - 1e-9
    assert owed_s == 0 or (elapsed_s + owed_s) * speed == pytest.approx(used_s)


@pytest.mark.live
def test_cpu_time_is_exact_while_a_process_is_paced(tmp_path: Path) -> None:
    """The CPU time of a paced process grows in small steps.

    The kernel's clock of the process would stand still between two ticks.
    """
    Budget.create(tmp_path / "budget", {"cpu": 8.0}).close()
    pacer = CpuPacer(Budget.open(tmp_path / "budget"), 8.0)
    pacer.start()
    try:
        seen = {own_cpu_s() for _ in range(2000)}
    finally:
        pacer.stop()
    assert len(seen) > 100, "the clock moves in steps"


def _burn(path: Path, numpy_calls: bool) -> float:
    """Burn 0.25 s of CPU time in a child process, and return the achieved share of a core.

    The work is calls of numpy if `numpy_calls` is true, and plain Python otherwise.
    """
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


def test_a_pacer_does_not_make_an_attempt_wait_again_for_what_its_agent_has_withheld(tmp_path: Path) -> None:
    clock = Clock()
    budget = a_budget(tmp_path, clock, cpu=0.4)
    withheld = [0.0]
    pacer = CpuPacer(budget, 0.1, lambda: clock.cpu_s, clock, clock.sleep, lambda: withheld[0])
    clock.work(1.0)
    withheld[0] = 9.0  # the agent stopped it for that long meanwhile
    clock.now_s += 9.0
    pacer.settle()
    assert clock.now_s == 1010.0
    clock.work(0.1)
    pacer.settle()
    assert clock.now_s == pytest.approx(1011.0, abs=CPU_BANK_S + 0.001)


def a_disk(
    tmp_path: Path, clock: Clock, name: str = "disk", rate: float = 100.0, seek: float = 0.25
) -> Budget:
    """Return the budget of a disk that seeks, opened as by one more process.

    The bucket `disk` has `rate` bytes per second, and `seek` is its slowdown per additional stream.
    """
    path = tmp_path / name
    if not path.exists():
        Budget.create(path, {"disk": rate}, {"disk": seek}).close()
    return Budget(path, clock, clock.sleep)


def test_streams_through_a_disk_that_seeks_get_less_together_while_there_are_several(tmp_path: Path) -> None:
    """One stream has 100 bytes per second, two have 100 / 1.25 and three 100 / 1.5 together.

    The streams may be in one process or in several.
    """
    clock = Clock()
    here, there = a_disk(tmp_path, clock), a_disk(tmp_path, clock)
    one = here.stream("disk")
    assert one.reserve(10.0) == pytest.approx(0.1)
    other = there.stream("disk")
    assert other.reserve(10.0) == pytest.approx(0.1 + 0.125)
    third = here.stream("disk")
    assert third.reserve(10.0) == pytest.approx(0.225 + 0.15)
    assert one.reserve(10.0) == pytest.approx(0.375 + 0.15)
    del third
    assert other.reserve(10.0) == pytest.approx(0.525 + 0.125)
    del other
    assert one.reserve(10.0) == pytest.approx(0.65 + 0.1)


def test_a_stream_whose_process_was_killed_counts_no_more_after_a_while(tmp_path: Path) -> None:
    clock = Clock()
    disk, killed = a_disk(tmp_path, clock), a_disk(tmp_path, clock)
    left = killed.stream("disk")
    clock.sleep(left.reserve(10.0))
    killed.close()  # nobody says that the stream has ended
    one = disk.stream("disk")
    clock.sleep(one.reserve(10.0))
    assert clock.now_s == pytest.approx(1000.0 + 0.1 + 0.125)
    clock.sleep(EXPIRES_S)
    one = disk.stream("disk")
    assert one.reserve(10.0) == pytest.approx(0.1)
    del left


def test_a_stream_that_stood_still_for_long_gets_another_place(tmp_path: Path) -> None:
    clock = Clock()
    disk = a_disk(tmp_path, clock)
    slow = disk.stream("disk")
    clock.sleep(slow.reserve(10.0))
    clock.sleep(EXPIRES_S + 1)
    fast = disk.stream("disk")
    assert fast.reserve(10.0) == pytest.approx(0.1)  # alone, in the place of the other
    clock.sleep(0.1)
    clock.sleep(CATCH_UP_S)
    before_s = clock.now_s
    slow.reserve(100.0)  # it makes up for a quarter of a second
    clock.sleep(before_s - CATCH_UP_S + 1.25 - clock.now_s)
    assert fast.reserve(100.0) == pytest.approx(1.25)  # both count


def test_more_streams_than_there_are_places_count_as_so_many(tmp_path: Path) -> None:
    clock = Clock()
    disk = a_disk(tmp_path, clock, seek=1.0)
    streams = [disk.stream("disk") for _ in range(PLACES + 5)]
    for stream in streams:
        stream.reserve(0.0)
    level_s = streams[-1].reserve(100.0)
    assert level_s == pytest.approx(PLACES + 1)
    del streams[:PLACES]
    assert streams[0].reserve(100.0) - level_s == pytest.approx(1.0, abs=4.0)


def test_a_stream_through_two_disks_waits_for_the_slower_one(tmp_path: Path) -> None:
    clock = Clock()
    own, shared = a_disk(tmp_path, clock, seek=0.0), a_disk(tmp_path, clock, "shared", rate=50.0)
    both, one = own.stream("disk", shared.stream("disk")), shared.stream("disk")
    assert both.reserve(10.0) == pytest.approx(0.2)
    assert one.reserve(10.0) == pytest.approx(0.2 + 0.25)
    assert (own.used("disk"), shared.used("disk")) == (10.0, 20.0)
    began_s = clock.now_s
    both.take(100.0)
    assert clock.now_s - began_s == pytest.approx(0.45 + 2.5)
