"""Detection of two faults of users' policies: calls that never end, and closing the JobTracker's files."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from schedbed.scheduler.guard import stuck_watch
from schedbed.scheduler.guard.blame import PolicySource
from schedbed.scheduler.guard.call_record import (
    CALL_RECORD,
    SHORT_LIVES,
    SIZE,
    CallRecord,
    kept_mark,
    no_short_life,
    read_kept_mark,
    read_mark,
)
from schedbed.scheduler.guard.guarded_calls import Guard
from schedbed.scheduler.guard.kept_open import KeptOpen
from schedbed.scheduler.guard.stuck_watch import StuckWatch
from schedbed.scheduler.policy import PolicyFailed

TEXT = "decide (mine.py, line 7)"


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> dict[int, float]:
    """Return how long each thread of the watched process waited for a CPU, which a test may set."""
    waits: dict[int, float] = {}
    monkeypatch.setattr(stuck_watch, "_run_queues_s", lambda _: dict(waits))
    return waits


def begun(path: Path) -> CallRecord:
    mark = CallRecord()
    mark.share(kept_mark(path)[0])
    return mark


def watch(path: Path) -> StuckWatch:
    """Return a watch that reports a call as stuck at the fourth look."""
    return StuckWatch(path, every_s=1e-9, stuck_s=lambda _: 3e-9)


def in_a_child(act: Callable[[], bool]) -> bool:
    """Call the function `act` in a child process and return its result."""
    pid = os.fork()
    if pid == 0:
        os._exit(int(act()))
    return bool(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def test_a_call_that_goes_on_is_stuck_and_named_until_it_ends(tmp_path: Path) -> None:
    path = tmp_path / "policy-call"
    looks = watch(path)
    assert looks.look() == ""  # there is no JobTracker yet
    mark = begun(path)
    mark.enter(mark.number(TEXT))
    assert [bool(looks.look()) for _ in range(5)] == [False, False, False, True, True]
    assert looks.look().endswith(f"in {TEXT}")
    mark.leave()
    assert looks.look() == ""


def test_a_call_without_a_cpu_is_not_stuck(tmp_path: Path, waits: dict[int, float]) -> None:
    path = tmp_path / "policy-call"
    looks, mark = watch(path), begun(path)
    mark.enter(mark.number(TEXT))
    for number in range(9):
        waits[7] = 5.0 + number * 1e-9
        assert looks.look() == ""
    assert [bool(looks.look()) for _ in range(4)] == [False, False, True, True]


def test_many_calls_are_not_one(tmp_path: Path) -> None:
    mark = begun(tmp_path / "policy-call")
    looks, number = watch(tmp_path / "policy-call"), mark.number(TEXT)
    for _ in range(300):
        mark.enter(number)
        assert looks.look() == ""
        mark.leave()


def test_a_process_that_is_killed_in_a_call_is_not_stuck(tmp_path: Path) -> None:
    path = tmp_path / "policy-call"

    def enter() -> bool:
        mark = begun(path)
        mark.enter(mark.number(TEXT))
        return True

    assert in_a_child(enter)
    kept = read_kept_mark(path)
    assert kept is not None and kept.inside and kept.text == TEXT
    looks = watch(path)
    assert [looks.look() for _ in range(10)] == [""] * 10


@pytest.mark.parametrize("again", [False, True])
def test_files_that_somebody_closes_are_lost(tmp_path: Path, again: bool) -> None:
    path, other = tmp_path / "policy-call", tmp_path / "other"
    begun(path)
    other.write_text("")

    def close_all() -> bool:
        kept = KeptOpen(path)
        if kept.is_lost():
            return False
        os.closerange(3, 1000)
        if again:  # the number means another file now
            for _ in range(100):
                other.open()
                os.open(other, os.O_RDONLY)
        return kept.is_lost()

    assert in_a_child(close_all)


def test_a_file_that_is_closed_in_order_is_not_lost(tmp_path: Path) -> None:
    begun(tmp_path / "policy-call")
    kept = KeptOpen(tmp_path / "policy-call")
    kept.close()
    kept.close()
    assert not kept.is_lost()


def test_the_mark_stands_while_the_text_of_an_error_is_asked_for() -> None:
    memory, seen = mmap.mmap(-1, SIZE), []

    class Slow(Exception):
        def __str__(self) -> str:
            seen.append(read_mark(memory)[0])
            return "slow"

    def decide() -> None:
        seen.append(read_mark(memory)[0])
        raise Slow

    CALL_RECORD.share(memory)
    try:
        with pytest.raises(PolicyFailed, match="slow"):
            Guard(PolicySource(__file__)).call("decide", decide)
    finally:
        CALL_RECORD.share(None)
    assert seen == [True, True]
    assert not read_mark(memory)[0] and not CALL_RECORD.inside


def test_short_lives_in_a_row_are_blamed_on_the_policy_that_was_called_in_each(tmp_path: Path) -> None:
    def live(*, calls: bool, long: bool = False) -> str:
        memory, blame = kept_mark(tmp_path / "mark")
        mark = CallRecord()
        mark.share(memory)
        if calls:
            mark.enter(mark.number("decide (mine.py, line 3)"))
            mark.leave()
        if long:
            no_short_life(memory)
        return blame

    assert [live(calls=True) for _ in range(SHORT_LIVES)] == [""] * SHORT_LIVES
    assert live(calls=True, long=True) == (
        f"has ended the JobTracker's process {SHORT_LIVES} times, each soon after decide (mine.py, line 3)"
    )
    assert [live(calls=True, long=True) for _ in range(3 * SHORT_LIVES)] == [""] * 3 * SHORT_LIVES


def test_short_lives_without_a_call_are_nobodys_fault(tmp_path: Path) -> None:
    assert [kept_mark(tmp_path / "mark")[1] for _ in range(3 * SHORT_LIVES)] == [""] * 3 * SHORT_LIVES
