"""The clock of live runs: emulated seconds since the run's start, the same on every host.

An emulated second lasts `stretch` real seconds. All times that are displayed, stored or sent are emulated. In
live runs, code reads the time from a `RunClock` only. A `RunClock` also converts emulated durations to real
seconds.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from schedbed.tasks.stretch_file import StretchFile

LOOK_S = 0.25
"""Longest real sleep in seconds before a stretch that may change is read again."""


class RunClock:
    """A clock of emulated seconds since `epoch_s`, the run's start as Unix time.

    The clock is monotonic within a process. All processes of a run use the same start. `stretch` is the
    number of real seconds per emulated second. If the stretch may change during the run, `changes` is the
    path of the run's `StretchFile` (a file with each new stretch), and `stretch` is only the initial value.
    """

    def __init__(self, epoch_s: float, stretch: float = 1.0, changes: Path | None = None) -> None:
        self._first = stretch
        self._changes = changes
        self._file: StretchFile | None = None
        self._last_s = 0.0
        self.begin(epoch_s)

    def begin(self, epoch_s: float) -> None:
        """Set the run's start to the Unix time `epoch_s`, which is known only when all nodes have started."""
        self.epoch_s = epoch_s
        self._wall_s = time.time() - time.monotonic()
        self._offset_s = self._wall_s - epoch_s
        if self._file is None and self._changes is not None and self._changes.is_file():
            self._file = StretchFile(self._changes)
        self._last_s = 0.0

    @property
    def stretch(self) -> float:
        """Return the current number of real seconds per emulated second."""
        file = self._file
        return self._first if file is None else file.time.stretch_at(self._real_now_s())

    @property
    def kept(self) -> float:
        """Return the initial stretch (real seconds per emulated second) divided by the current stretch.

        A node's rates per emulated second stay constant. To get the node's current rates per real second,
        multiply the initial rates by the result.
        """
        return self._first / self.stretch

    def now_s(self) -> float:
        """Return the emulated seconds since the run's start."""
        if self._file is None:
            return (time.monotonic() + self._offset_s) / self._first
        time_ = self._file.time
        now_s = time_.emulated_s(self._real_now_s()) - time_.emulated_s(self.epoch_s)
        # A late change of the stretch shortens the elapsed time a little, but time must never decrease.
        self._last_s = max(self._last_s, now_s)
        return self._last_s

    def steady_s(self) -> float:
        """Return a time in seconds since an arbitrary start, for measuring durations and rates of a node.

        The seconds are real seconds while the stretch (real seconds per emulated second) has its initial
        value. If the stretch doubles, these seconds last twice as long. Measured rates can thus always be
        compared with the node's initial rates. Unlike `now_s`, the value does not jump at the run's start.
        """
        if self._file is None:
            return time.monotonic()
        time_ = self._file.time
        return time_.emulated_s(self._real_now_s()) * self._first

    def time_of_day_s(self, emulated_s: float) -> float:
        """Return the Unix time of a point in the run, given in emulated seconds since the run's start."""
        if self._file is None:
            return self.epoch_s + emulated_s * self._first
        time_ = self._file.time
        return time_.real_s(time_.emulated_s(self.epoch_s) + emulated_s)

    def since_start_s(self, time_of_day_s: float) -> float:
        """Return the emulated seconds from the run's start to the Unix time `time_of_day_s`."""
        if self._file is None:
            return (time_of_day_s - self.epoch_s) / self._first
        time_ = self._file.time
        return time_.emulated_s(time_of_day_s) - time_.emulated_s(self.epoch_s)

    def real_s(self, emulated_s: float) -> float:
        """Return the number of real seconds in `emulated_s` emulated seconds at the current stretch."""
        return emulated_s * self.stretch

    async def sleep(self, emulated_s: float) -> None:
        """Sleep for `emulated_s` emulated seconds, even if the stretch changes during the sleep."""
        if self._file is None:
            await asyncio.sleep(self.real_s(emulated_s))
            return
        until_s = self._file.time.emulated_s(self._real_now_s()) + emulated_s
        while (left_s := self._file.time.real_s(until_s) - self._real_now_s()) > 1e-6:
            await asyncio.sleep(min(left_s, LOOK_S))

    @staticmethod
    def host_time_s() -> float:
        """Return the Unix time by this host's clock, which attempts on the host also read."""
        return time.time()

    @staticmethod
    def start(stretch: float = 1.0, changes: Path | None = None) -> RunClock:
        """Return a clock whose run starts now.

        `stretch` is the number of real seconds per emulated second. If the stretch may change, `changes` is
        the path of the run's `StretchFile` (a file with each new stretch).
        """
        return RunClock(time.time(), stretch, changes)

    def _real_now_s(self) -> float:
        return time.monotonic() + self._wall_s
