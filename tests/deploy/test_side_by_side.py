"""Tests work that runs in parallel processes: their number, the limit by memory, failed work, and Ctrl-C."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from schedbed.deploy import side_by_side as module
from schedbed.deploy.side_by_side import SideWork, apart, side_by_side
from schedbed.deploy.worker_fork import CUT_OFF, KILLED, NO_MEMORY, RESULT, STOPPED, Send, WorkBounds, WorkEnd

HOURS_S = 7200.0


@pytest.fixture
def count() -> Callable[[], int]:
    """Return a function that counts the children of this process since the test began.

    Another test's node may have left its warm process, which further nodes of the same process use.
    """
    before = {child.pid for child in psutil.Process().children()}
    return lambda: len({child.pid for child in psutil.Process().children()} - before)


def within(folder: Path, most: int) -> Callable[[Send], int]:
    """Return work that ends once `most` of these processes have run at the same time, and returns their
    number.

    Each process leaves a file in `folder`, by which the others count it.
    """

    def do(_: Send) -> int:
        mine = folder / str(os.getpid())
        mine.touch()
        seen = 0
        while seen < most:
            seen = max(seen, len(list(folder.iterdir())))
            time.sleep(0.01)
        return seen

    return do


def test_results_are_in_the_order_of_the_works() -> None:
    def late(number: int) -> Callable[[Send], int]:
        def do(_: Send) -> int:
            time.sleep(0.05 * (3 - number))
            return number

        return do

    ended: list[Any] = []
    works = [SideWork(do=late(number), ended=lambda end: ended.append(end.value)) for number in range(3)]
    assert side_by_side(works, 3) == [WorkEnd(RESULT, number) for number in range(3)]
    assert sorted(ended) == [0, 1, 2]


def test_as_many_run_at_once_as_were_asked_for(tmp_path: Path, count: Callable[[], int]) -> None:
    ends = side_by_side([SideWork(do=within(tmp_path, 2)) for _ in range(2)], 2)
    assert [end.value for end in ends] == [2, 2]
    running: list[int] = []

    def look(_: object) -> None:
        running.append(count())

    works = [SideWork(do=lambda send: send("here"), take=look) for _ in range(5)]
    side_by_side(works, 2)
    assert len(running) == 5 and max(running) <= 2


def test_with_little_memory_they_go_one_after_the_other(
    monkeypatch: pytest.MonkeyPatch, count: Callable[[], int]
) -> None:
    monkeypatch.setattr(module, "memory_left_bytes", lambda: module.RESERVE_BYTES + (100 << 20))
    running: list[int] = []

    def look(_: object) -> None:
        running.append(count())

    works = [SideWork(do=lambda send: send("here"), take=look, needs_bytes=200 << 20) for _ in range(3)]
    assert [end.kind for end in side_by_side(works, 3)] == [RESULT] * 3
    assert running == [1, 1, 1]


def test_the_latest_start_is_taken_back_when_memory_runs_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[int] = []
    short = tmp_path / "memory-was-short"

    def left() -> int:
        if len(begun) == 2 and not short.exists():
            short.touch()
            return 0
        return 1 << 40

    def do(_: Send) -> str:
        while not short.exists():
            time.sleep(0.01)
        return "done"

    monkeypatch.setattr(module, "memory_left_bytes", left)
    works = [SideWork(do=do, begin=lambda number=number: begun.append(number)) for number in range(2)]
    assert [end.value for end in side_by_side(works, 2)] == ["done", "done"]
    assert begun == [0, 1, 1]


def test_work_that_is_killed_beside_other_work_is_tried_again_alone(tmp_path: Path) -> None:
    """A process that the kernel kills, as it does without free memory, is run once more with no other beside
    it.

    If it is killed again, the work has failed.
    """
    first = tmp_path / "first"

    def once(_: Send) -> str:
        if not first.exists():
            first.touch()
            signal.raise_signal(signal.SIGKILL)
        return "second time"

    def after(_: Send) -> None:
        while not first.exists():
            time.sleep(0.01)
        time.sleep(0.3)

    def always(_: Send) -> None:
        signal.raise_signal(signal.SIGKILL)

    begun: list[str] = []
    works = [
        SideWork(do=once, begin=lambda: begun.append("once")),
        SideWork(do=after),
        SideWork(do=always, begin=lambda: begun.append("always")),
    ]
    ends = side_by_side(works, 2)
    assert (ends[0].value, ends[1].kind) == ("second time", RESULT)
    assert ends[2] == WorkEnd(KILLED, "its process ended with SIGKILL")
    assert begun.count("once") == 2


def test_bounds_of_time_and_memory_fail_only_their_own_work() -> None:
    def large(_: Send) -> int:
        return len(bytearray(3 << 30))

    works = [SideWork(do=lambda _: time.sleep(HOURS_S)), SideWork(do=lambda _: "well")]
    assert side_by_side(works, 2, WorkBounds(time_s=0.5)) == [
        WorkEnd(CUT_OFF, "took longer than 0.5 s"),
        WorkEnd(RESULT, "well"),
    ]
    ends = side_by_side([SideWork(do=large), SideWork(do=lambda _: 5)], 2, WorkBounds(memory_bytes=2 << 30))
    assert ends == [WorkEnd(NO_MEMORY, "needs more than 2048 MiB of memory"), WorkEnd(RESULT, 5)]


@pytest.mark.parametrize(
    "said",
    [
        b"r" + (3).to_bytes(8, "little") + b"{{{",
        b"m" + (1 << 62).to_bytes(8, "little"),
        b"r" + (10**5).to_bytes(8, "little") + b"[" * 10**5,
    ],
    ids=["no JSON", "too long", "too deep"],
)
def test_what_user_code_writes_to_the_pipe_is_read_and_not_executed(said: bytes) -> None:
    def do(send: Any) -> None:
        [pipe] = [cell.cell_contents for cell in send.__closure__ if isinstance(cell.cell_contents, int)]
        left = memoryview(said)
        while left:
            left = left[os.write(pipe, left) :]
        time.sleep(HOURS_S)

    [end] = side_by_side([SideWork(do=do, file="mine.py")], 1)
    assert end == WorkEnd(CUT_OFF, "the policy's process sent what is no message (mine.py, line 1)")


def test_work_may_itself_need_a_process_apart() -> None:
    """Work may fork a process itself, although each fork closes the other works' pipes and reuses their
    numbers.
    """

    def do(send: Send) -> str:
        return apart(lambda _: "from below", send)

    assert [end.value for end in side_by_side([SideWork(do=do) for _ in range(4)], 2)] == ["from below"] * 4


def test_an_interrupt_ends_all_and_takes_what_they_have_to_say(count: Callable[[], int]) -> None:
    said: list[str] = []
    ended: list[WorkEnd] = []

    def do(send: Send) -> None:
        try:
            send("begun")
            time.sleep(HOURS_S)
        finally:
            send("kept")

    def take(message: str) -> None:
        said.append(message)
        if said == ["begun", "begun"]:
            signal.raise_signal(signal.SIGINT)

    works = [SideWork(do=do, take=take, ended=ended.append) for _ in range(3)]
    with pytest.raises(KeyboardInterrupt):
        side_by_side(works, 2)
    assert said == ["begun", "begun", "kept", "kept"]
    assert [end.kind for end in ended] == [STOPPED, STOPPED]
    assert count() == 0
