"""A limit on the time of one call of a user's code.

A thread checks four times a second, and raises `Overdue` in a call that takes too long: in the main thread by
a signal, which also interrupts waiting, in others by the interpreter, which interrupts Python code only. If
the call goes on, the process prints a message and ends.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Lock, Thread, current_thread, get_ident, main_thread
from threading import enumerate as enumerate_threads
from types import FrameType
from typing import Any, NoReturn

from schedbed.scheduler.guard.blame import PolicySource

LIMIT_S = 3.0
"""The number of seconds that one call of a policy may take."""
MAKING_S = {"its import": 5.0, "__init__": 5.0}
"""The number of seconds that these calls may take: the import of the policy's file, and its constructor."""
GRACE_S = 0.75
"""The number of seconds in which a call must end after it was interrupted."""
TICK_S = 0.25


def limit_s(call: str) -> float:
    """Return the seconds that a call may take. `call` is a text such as `decide` or `decide (mine.py, line 7)`."""
    return MAKING_S.get(call.partition(" (")[0], LIMIT_S)


def stuck_s(call: str) -> float:
    """Return when another process regards a call as stuck: after its own process should have ended it."""
    return limit_s(call) + GRACE_S + 0.25


def native_id(thread: int) -> int:
    """Return the kernel's number of a thread of this process, given its Python id, or 0 if not known."""
    return next((each.native_id or 0 for each in enumerate_threads() if each.ident == thread), 0)


def run_queue_s(thread: int, process: int | str = "self") -> float:
    """Return the seconds for which a thread was ready but had no CPU, 0.0 if the kernel does not count them."""
    try:
        text = Path(f"/proc/{process}/task/{thread}/schedstat").read_text()
        return int(text.split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


ExitWith = Callable[[str], NoReturn]


class Overdue(BaseException):
    """The exception that is raised in a call of a user's code if the call takes too long."""


def _say_and_exit(text: str) -> NoReturn:
    """Print the text and end the process, because a user's code cannot be interrupted."""
    print(f"schedbed: {text}", file=sys.stderr, flush=True)
    os._exit(1)


def no_tick() -> None:
    """Do nothing. This function is the default of `TimeBound.on_tick`."""


class TimeBound:
    """A watch that limits the time of one call of a user's code at a time.

    It counts its checks, so that a pause of the process does not matter, without the time for which the call
    waited for a CPU, so that a busy host does not matter either. `now` is the call's name and source.
    `exit_with` must end the process if a call cannot be interrupted.
    """

    def __init__(self, exit_with: ExitWith = _say_and_exit) -> None:
        self.exit_with = exit_with
        self.limit_of: Callable[[str], float] = limit_s
        self.on_tick: Callable[[], None] = no_tick  # Other periodic work of the watching thread.
        self.trouble = ""  # Error message about the last interrupted call.
        self.thread = 0
        self.serial = 0
        self.now: tuple[str, PolicySource] | None = None
        self.interrupted = False
        self._lock = Lock()
        self._watcher: Thread | None = None
        self._pid = 0

    def call(
        self, what: str, source: PolicySource, function: Callable[..., Any], arguments: tuple[Any, ...]
    ) -> Any:
        """Call the function. Raises Overdue if it took too long, even if it caught that exception."""
        try:
            self.serial += 1
            self.thread = get_ident()
            self.now = (what, source)
            try:
                return function(*arguments)
            finally:
                self.now = None
                if self.interrupted:
                    self.settle()
        except Overdue:
            self.rest()
            raise Overdue from None

    def settle(self) -> NoReturn:
        """Wait until an interrupt that was sent has arrived, so that it cannot hit a later call. Raises Overdue."""
        with self._lock:
            pass
        for _ in range(1000):
            pass
        raise Overdue

    def rest(self) -> None:
        """Set `now` (the current call) to None and `interrupted` to false, after an interrupted call."""
        with self._lock:
            self.now = None
            self.interrupted = False

    def watch(self) -> None:
        """Start the thread that checks calls, unless it already runs in this process."""
        if current_thread() is main_thread() and signal.getsignal(signal.SIGURG) is signal.SIG_DFL:
            signal.signal(signal.SIGURG, self._on_signal)
        if self._watcher is None or self._pid != os.getpid():
            self._pid = os.getpid()
            self._lock = Lock()
            self._watcher = Thread(target=self._look, name="policy-watch", daemon=True)
            self._watcher.start()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.interrupted and self.now is not None:
            raise Overdue

    def _look(self) -> None:
        seen, ticks, before_s = 0, 0, 0.0
        while True:
            time.sleep(TICK_S)
            self.on_tick()
            if self.now is None:
                continue
            waited_s = run_queue_s(native_id(self.thread))
            if self.serial != seen:
                seen, ticks, before_s = self.serial, 0, waited_s
                continue
            ticks += 1
            self._bound(seen, ticks * TICK_S - (waited_s - before_s))

    def _bound(self, serial: int, taken_s: float) -> None:
        with self._lock:
            call = self.now
            if call is None or self.serial != serial:
                return
            what, source = call
            limit_s = self.limit_of(what)
            if taken_s < limit_s:
                return
            if not self.interrupted:
                place = source.line_of_thread(self.thread) or source.file
                self.trouble = f"{what} has not ended after {limit_s:g} s ({place})"
            if taken_s >= limit_s + GRACE_S:
                self.exit_with(self.trouble)
            self.interrupted = True
            if self.thread == main_thread().ident and signal.getsignal(signal.SIGURG) == self._on_signal:
                with suppress(ProcessLookupError):
                    signal.pthread_kill(self.thread, signal.SIGURG)
            else:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(self.thread), ctypes.py_object(Overdue)
                )


TIME_BOUND = TimeBound()
"""The watch of this process."""
