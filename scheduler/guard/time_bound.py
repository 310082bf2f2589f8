"""A bound on the time of one call of a user's code.

A thread checks the current call four times a second and raises `Overdue` in a call that takes too long. If the call
runs in the main thread, a signal raises it, which also interrupts sleeping and waiting; else the interpreter raises
it, which interrupts loops only. Code that ignores both ends the process with a last message.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from threading import Lock, Thread, current_thread, get_ident, main_thread
from types import FrameType
from typing import Any, NoReturn

from schedbed.scheduler.guard.blame import Culprit

LIMIT_S = 3.0
"""Seconds that one call of a policy may take."""
MAKING_S = {"its import": 5.0, "__init__": 5.0}
"""Seconds that those calls may take."""
GRACE_S = 0.75
"""Seconds after that in which an interrupted call must end."""
TICK_S = 0.25


def limit_s(call: str) -> float:
    """Return the allowed seconds for the call: `decide`, or as a mark has it, `decide (mine.py, line 7)`."""
    return MAKING_S.get(call.partition(" (")[0], LIMIT_S)


def stuck_s(call: str) -> float:
    """Return the seconds after which a call counts as stuck: the watch in its own process has failed to end it."""
    return limit_s(call) + GRACE_S + 0.25


LastWords = Callable[[str], NoReturn]


class Overdue(BaseException):
    """The call takes too long."""


def _say_and_exit(text: str) -> NoReturn:
    """Print the text and end the process, since nothing else stops code that cannot be interrupted."""
    print(f"schedbed: {text}", file=sys.stderr, flush=True)
    os._exit(1)


def look_at_nothing() -> None:
    """Do nothing: the default of `TimeBound.on_tick`."""


class TimeBound:
    """Watches one call at a time. Its ticks are counted, so that a process that was paused is not blamed.

    For each call, the caller sets `thread` and then `now` (the call and the code it belongs to). After the call it
    sets `now` to None and calls `settle` if `interrupted` is set.
    """

    def __init__(self, last_words: LastWords = _say_and_exit) -> None:
        self.last_words = last_words
        self.limit_of: Callable[[str], float] = limit_s
        self.on_tick: Callable[[], None] = look_at_nothing  # what else its thread looks at
        self.trouble = ""  # of the call that was interrupted last
        self.thread = 0
        self.serial = 0
        self.now: tuple[str, Culprit] | None = None
        self.interrupted = False
        self._lock = Lock()
        self._watcher: Thread | None = None
        self._pid = 0

    def call(
        self, what: str, culprit: Culprit, function: Callable[..., Any], arguments: tuple[Any, ...]
    ) -> Any:
        """Call the function. Raises Overdue if it was interrupted, also if the function caught the interrupt."""
        try:
            self.serial += 1
            self.thread = get_ident()
            self.now = (what, culprit)
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
        """Wait for an interrupt that was already sent, so that no later call gets it. Raises Overdue."""
        with self._lock:
            pass
        for _ in range(1000):
            pass
        raise Overdue

    def rest(self) -> None:
        """Reset the watch after a call that was interrupted."""
        with self._lock:
            self.now = None
            self.interrupted = False

    def watch(self) -> None:
        """Start the watching thread in this process."""
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
        seen = ticks = 0
        while True:
            time.sleep(TICK_S)
            self.on_tick()
            if self.now is None or self.serial != seen:
                seen, ticks = self.serial, 0
                continue
            ticks += 1
            self._bound(seen, ticks * TICK_S)

    def _bound(self, serial: int, taken_s: float) -> None:
        with self._lock:
            call = self.now
            if call is None or self.serial != serial:
                return
            what, culprit = call
            limit_s = self.limit_of(what)
            if taken_s < limit_s:
                return
            if not self.interrupted:
                place = culprit.line_of_thread(self.thread) or culprit.file
                self.trouble = f"{what} has not ended after {limit_s:g} s ({place})"
            if taken_s >= limit_s + GRACE_S:
                self.last_words(self.trouble)
            self.interrupted = True
            if self.thread == main_thread().ident and signal.getsignal(signal.SIGURG) == self._on_signal:
                with suppress(ProcessLookupError):
                    signal.pthread_kill(self.thread, signal.SIGURG)
            else:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(self.thread), ctypes.py_object(Overdue)
                )


TIME_BOUND = TimeBound()
"""The bound of this process."""
