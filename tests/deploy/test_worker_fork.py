"""Tests work in a forked process: its result, its messages, and failures of the process."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from schedbed.deploy import side_by_side
from schedbed.deploy import worker_fork as module
from schedbed.deploy.side_by_side import apart
from schedbed.deploy.worker_fork import ApartFailed, CutOff, Send
from schedbed.scheduler.guard.call_record import CALL_RECORD
from schedbed.tasks.errors import BadInput


def within(act: Callable[[], Any]) -> Callable[[Send], Any]:
    """Return work that calls `act` while the process records a call of the policy's `decide`."""

    def work(_: Send) -> Any:
        CALL_RECORD.enter(CALL_RECORD.number("decide (mine.py, line 7)"))
        return act()

    return work


def test_the_result_and_all_messages_come_back() -> None:
    taken: list[Any] = []

    def work(send: Send) -> int:
        for number in range(1000):
            send((number, "x" * number))
        return os.getpid()

    assert apart(work, taken.append) != os.getpid()
    assert taken == [[number, "x" * number] for number in range(1000)]


def test_what_the_work_does_to_its_process_stays_there(capfd: pytest.CaptureFixture[str]) -> None:
    folder, path = Path.cwd(), list(sys.path)

    def work(_: Send) -> None:
        os.chdir("/")
        os.environ.clear()
        sys.path.clear()
        print("said")
        sys.modules.clear()

    apart(work)
    assert (Path.cwd(), sys.path) == (folder, path) and os.environ
    assert "said" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("act", "how"),
    [
        (lambda: os._exit(0), "the policy's process ended with exit code 0 in decide (mine.py, line 7)"),
        (lambda: signal.raise_signal(signal.SIGKILL), "the policy's process ended with SIGKILL in decide"),
        (lambda: os.closerange(3, 100), "ended with exit code 0 in decide (mine.py, line 7)"),
        (lambda: signal.raise_signal(signal.SIGINT), "was interrupted by a signal in decide"),
        (lambda: print("x" * 5_000_000), "wrote more than 4,000,000 bytes of output in decide"),
    ],
)
def test_a_process_that_ends_without_a_result(act: Callable[[], Any], how: str) -> None:
    with pytest.raises(CutOff) as caught:
        apart(within(act))
    assert how in str(caught.value)


@pytest.mark.long  # waits for seconds
def test_a_call_that_cannot_be_interrupted_is_ended_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "stuck_s", lambda _: 0.3)
    with pytest.raises(CutOff, match=r"could not be interrupted, in decide \(mine.py, line 7\)"):
        apart(within(lambda: sum(range(10**12))))


def test_errors_come_back_as_one_line() -> None:
    def raises(error: BaseException) -> Callable[[], None]:
        def act() -> None:
            raise error

        return act

    with pytest.raises(BadInput, match="no such thing"):
        apart(within(raises(BadInput("no such thing"))))
    with pytest.raises(ApartFailed, match=r"^ValueError: 5 in decide \(mine.py, line 7\)$"):
        apart(within(raises(ValueError(5))))


def test_harm_is_refused_within_a_call_only() -> None:
    def work(_: Send) -> str:
        os.kill(os.getpid(), 0)
        CALL_RECORD.enter(CALL_RECORD.number("decide (mine.py, line 7)"))
        try:
            os.kill(os.getppid(), 0)
        except PermissionError as error:
            return str(error)
        return ""

    assert apart(work) == "os.kill is refused: a policy ends no processes"


@pytest.mark.parametrize("lost", [0, 2])
def test_an_interrupt_ends_the_process_and_takes_what_it_has_to_say(
    lost: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interrupt is sent until the process ends, and messages sent during the end are received.

    The first `lost` interrupts are dropped, as if they came just before a blocking call.
    """
    taken: list[Any] = []
    sent: list[int] = []
    monkeypatch.setattr(side_by_side, "LOOK_S", 0.05)

    def kill(pid: int, number: int) -> None:
        sent.append(number)
        if len(sent) > lost:
            os.kill(pid, number)

    monkeypatch.setattr(module, "os", SimpleNamespace(**{**vars(os), "kill": kill}))

    def take(message: Any) -> None:
        taken.append(message)
        if message == "begun":
            signal.raise_signal(signal.SIGINT)

    def work(send: Send) -> None:
        try:
            send("begun")
            time.sleep(100)
        finally:
            time.sleep(5 * side_by_side.LOOK_S)  # further interrupts come meanwhile
            send("kept")

    with pytest.raises(KeyboardInterrupt):
        apart(work, take)
    assert taken == ["begun", "kept"]
