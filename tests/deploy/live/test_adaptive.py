from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedbed.deploy.doctor.host_load import HostClock
from schedbed.deploy.live.adaptive.others_use import (
    OthersUse,
    Process,
    below,
    parse_process,
    read_processes,
    used_ticks,
)
from schedbed.deploy.live.adaptive.stretch_rule import HOLD_S, IGNORED, SHARE, STEPS, StretchRule, needed
from schedbed.deploy.live.adaptive.stretch_watch import told_changes
from schedbed.tasks.stretch_file import EmulatedTime

cores = st.integers(1, 64).map(float)
shares = st.floats(0.01, 1.0)


@given(cores, shares, st.floats(0.0, 64.0), st.floats(0.0, 8.0))
def test_who_takes_more_never_lowers_the_need(host: float, share: float, others: float, more: float) -> None:
    less, greater = needed(share * host, host, others), needed(share * host, host, others + more)
    assert less.step in STEPS and greater.step >= less.step
    assert less.is_enough or not greater.is_enough


@given(cores, shares)
def test_an_idle_host_needs_no_more_than_the_first_stretch(host: float, share: float) -> None:
    assert needed(share * host, host, 0.0).step == 1.0


@given(cores, shares, st.floats(0.0, 64.0))
def test_what_is_enough_fits_into_what_is_left_as_it_did_before(
    host: float, share: float, others: float
) -> None:
    need = needed(share * host, host, others)
    if need.is_enough and others > IGNORED * host:
        assert share * host / need.step <= max(SHARE, share) * (host - others) * (1 + 1e-9)


def test_the_quickstart_needs_twice_the_time_on_half_of_its_host() -> None:
    """Twelve cores of speed 0.08 need a stretch of 2 on a host of two CPUs if another process uses one of
    them.
    """
    assert needed(0.96, 2.0, 1.0).step == 2.0
    assert needed(0.96, 2.0, 0.1).step == 1.0
    assert not needed(0.96, 2.0, 2.0).is_enough


def looks(rule: StretchRule, seen: Sequence[tuple[float, float]]) -> list[float]:
    made: list[float] = []
    for now_s, others in seen:
        before = rule.stretch
        assert rule.look(now_s, others) == (rule.stretch != before)
        made.append(rule.stretch)
    return made


def test_the_stretch_rises_at_once_and_falls_after_a_while() -> None:
    rule = StretchRule(2.0, 0.96, 2.0)
    assert looks(rule, [(0.0, 0.0), (0.5, 1.0)]) == [2.0, 4.0]
    quiet = [(1.0 + 0.5 * number, 0.0) for number in range(8)]
    made = looks(rule, quiet)
    assert [stretch for (now_s, _), stretch in zip(quiet, made, strict=True) if now_s < 1.0 + HOLD_S] == [
        4.0
    ] * 4
    assert made[-1] == 2.0 and rule.is_enough


def test_a_pause_of_others_that_is_short_changes_nothing() -> None:
    rule = StretchRule(1.0, 0.96, 2.0)
    seen = [(0.5 * number, 0.0 if number % 3 == 2 else 1.0) for number in range(60)]
    assert set(looks(rule, seen)) == {2.0}


def test_the_stretch_falls_no_lower_than_the_highest_need_of_that_while() -> None:
    rule = StretchRule(1.0, 0.96, 2.0)
    assert looks(rule, [(0.0, 1.4)]) == [3.0]
    assert rule.others == 1.4
    assert looks(rule, [(1.0, 0.0), (2.0, 0.9), (3.1, 0.0)])[-1] == 1.5
    assert rule.others == 0.9


def test_more_than_the_largest_stretch_makes_up_for_is_said() -> None:
    rule = StretchRule(1.0, 0.96, 2.0)
    assert rule.look(0.0, 1.99) and rule.stretch == STEPS[-1] and not rule.is_enough


# ------------------------------------------------------------------ what others use


def stat_line(pid: int, parent: int, own: int, children: int = 0, nice: int = 0, started: int = 7) -> str:
    fields = [
        "S",
        parent,
        pid,
        pid,
        0,
        -1,
        0,
        0,
        0,
        0,
        0,
        own,
        0,
        children,
        0,
        20 + nice,
        nice,
        1,
        0,
        started,
    ]
    return f"{pid} (a name) of ) its own) " + " ".join(map(str, [*fields, 0, 0]))


class Proc:
    """A fake folder `/proc`. `tell` writes the CPU times of the host and of all processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def tell(self, busy: int, *lines: str, idle: int = 0) -> None:
        for old in self.folder.glob("*/stat"):
            old.unlink()
        (self.folder / "stat").write_text(f"cpu  {busy} 0 0 {idle} {idle} 0 0 0 99 99\ncpu0 1 2 3\n")
        for line in lines:
            pid = self.folder / line.partition(" ")[0]
            pid.mkdir(exist_ok=True)
            (pid / "stat").write_text(line + "\n")


TICKS = float(os.sysconf("SC_CLK_TCK"))


def use_of(proc: Proc, *roots: int) -> tuple[OthersUse, list[float]]:
    now = [0.0]
    return OthersUse(lambda: roots, lambda: now[0], proc.folder), now


def test_what_is_not_ours_is_others(tmp_path: Path) -> None:
    proc = Proc(tmp_path)
    use, now = use_of(proc, 10)
    proc.tell(1000, stat_line(1, 0, 5), stat_line(10, 1, 50), stat_line(11, 10, 20), stat_line(12, 1, 900))
    assert use.read() == 0.0
    now[0] = 2.0
    proc.tell(
        1300,
        stat_line(1, 0, 5),
        stat_line(10, 1, 60),
        stat_line(11, 10, 110),
        stat_line(12, 1, 1100),
        idle=400,
    )
    assert use.read() == pytest.approx(200 / TICKS / 2.0)


def test_who_gives_way_does_not_count(tmp_path: Path) -> None:
    proc = Proc(tmp_path)
    use, now = use_of(proc, 10)
    proc.tell(0, stat_line(10, 1, 0, nice=-5), stat_line(12, 1, 0, nice=10))
    use.read()
    now[0] = 1.0
    proc.tell(150, stat_line(10, 1, 50, nice=-5), stat_line(12, 1, 100, nice=10))
    assert use.read() == 0.0


def test_who_is_as_nice_as_ours_counts(tmp_path: Path) -> None:
    proc = Proc(tmp_path)
    use, now = use_of(proc, 10)
    proc.tell(0, stat_line(10, 1, 0, nice=19), stat_line(12, 1, 0, nice=19))
    use.read()
    now[0] = 1.0
    proc.tell(150, stat_line(10, 1, 50, nice=19), stat_line(12, 1, 100, nice=19))
    assert use.read() == pytest.approx(100 / TICKS)


def test_a_child_that_has_ended_is_counted_once() -> None:
    before = {10: Process(1, 0, 7, 50, 0), 11: Process(10, 0, 7, 400, 30)}
    after = {10: Process(1, 0, 7, 55, 436)}  # waited for: 6 of its ticks are new
    assert used_ticks(before, after, [10]) == 5 + 6
    assert used_ticks(before, {10: Process(1, 0, 7, 55, 0)}, [10]) == 5  # nobody has waited


def test_a_process_that_bears_the_number_of_another_is_new() -> None:
    before = {10: Process(1, 0, 7, 5000, 0)}
    assert used_ticks(before, {10: Process(1, 0, 8, 3, 0)}, [10]) == 3


def test_descendants_are_found_at_any_depth_and_a_circle_ends() -> None:
    processes = {2: Process(1, 0, 0, 0, 0), 3: Process(2, 0, 0, 0, 0), 4: Process(9, 0, 0, 0, 0)}
    assert below([2], processes) == {2, 3}
    assert below([1], processes) == {1, 2, 3}
    assert below([5], {5: Process(5, 0, 0, 0, 0)}) == {5}


def test_this_hosts_own_figures_can_be_read() -> None:
    own = read_processes()[os.getpid()]
    assert own.parent == os.getppid() and own.nice == os.getpriority(os.PRIO_PROCESS, 0)
    assert own.own > 0
    assert HostClock.read().busy_s > 0
    with pytest.raises((ValueError, IndexError)):
        parse_process("no process")


# ------------------------------------------------------------------ the record


def test_a_runs_changes_begin_with_the_stretch_at_its_start() -> None:
    time = EmulatedTime([(100.0, 1.0), (105.0, 2.0), (130.0, 4.0), (150.0, 1.0)])
    told = told_changes(time, [0.0, 1.0, 1.5, 0.111], 110.0, 15.0)
    assert told == [[0.0, 2.0, 1.0], [10.0, 4.0, 1.5], [15.0, 1.0, 0.11]]
    assert told_changes(EmulatedTime([(100.0, 3.0)]), [0.0], 110.0, 0.001) == [[0.0, 3.0, 0.0]]


def test_a_change_that_would_come_after_the_runs_end_is_not_told() -> None:
    time = EmulatedTime([(100.0, 1.0), (105.0, 2.0), (130.0, 4.0), (150.0, 1.0)])
    told = told_changes(time, [0.0, 1.0, 1.5, 0.111], 110.0, 14.99)
    assert told == [[0.0, 2.0, 1.0], [10.0, 4.0, 1.5]]
