"""Detection of hanging user code: it reads and writes nothing for longer than the job's `task_timeout`.

Time is measured in ticks of a timer, so that a frozen node, whose clock continues, is not mistaken for
hanging code. Each tick touches the status file. If C code holds the interpreter, no tick occurs, and the
agent kills the attempt (`tasks.own.silence`).
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from types import FrameType

from schedbed.tasks.attempt_status import StatusFile

TICK_S = 1.0
TICKS = 4  # Least number of ticks within the limit.
TIMEOUT = "task_timeout"
"""The job parameter with the seconds for which its code may do nothing."""
TIMEOUT_S = 600.0  # Hadoop's default.


class Hung(BaseException):
    """Raised in user code that has read and written nothing for too long. `except Exception` does not catch it."""


class Idle:
    """A counter of the consecutive timer ticks in which user code read and wrote no data."""

    def __init__(self, limit_s: float, progress: StatusFile) -> None:
        self.limit_s = limit_s
        self.tick_s = min(TICK_S, limit_s / TICKS)
        self._progress = progress
        self._ticks = 0

    @property
    def every_s(self) -> float:
        """Return a tick's length in real seconds."""
        return self.tick_s * self._progress.stretch

    def note(self, moved: bool) -> bool:
        """Count a tick without data, or reset the count. Return False at the limit."""
        self._ticks = 0 if moved else self._ticks + 1
        return self.idle_s < self.limit_s

    @property
    def idle_s(self) -> float:
        return self._ticks * self.tick_s

    def touch(self) -> None:
        """Signal to the agent that the timer still works, by updating the time of the attempt's status file."""
        self._progress.touch()


class Watch:
    """A timer that interrupts hanging code in the main thread. `mark()` changes with each read or write."""

    def __init__(self, idle: Idle, mark: Callable[[], object], also: Callable[[], None]) -> None:
        self._idle = idle
        self._mark = mark
        self._also = also
        self._last: object = None
        self.limit_s = idle.limit_s
        self.busy = False  # True while the code runs, False while it waits for input.

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Raise Hung in the code of the `with` block if it hangs. Must be called from the main thread."""
        before = signal.signal(signal.SIGALRM, self._tick)
        signal.setitimer(signal.ITIMER_REAL, self._idle.every_s, self._idle.every_s)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    def _tick(self, _signal: int, _frame: FrameType | None) -> None:
        self._also()
        mark = self._mark()
        moved = not self.busy or mark != self._last
        self._last = mark
        self._idle.touch()
        if not self._idle.note(moved):
            self._idle.note(True)
            raise Hung
