"""The clock of live runs: emulated seconds since the run's start, the same on every host.

An emulated second lasts `stretch` real seconds. All times that are displayed, stored or sent are emulated. In
live runs, code reads the time from a `RunClock` only. A `RunClock` also converts emulated durations to real
seconds.
"""

from __future__ import annotations

import asyncio
import time


class RunClock:
    """A clock of emulated seconds since `epoch_s`, the run's start as Unix time.

    The clock is monotonic within a process. All processes of a run use the same start. `stretch` is the
    number of real seconds per emulated second.
    """

    def __init__(self, epoch_s: float, stretch: float = 1.0) -> None:
        self.stretch = stretch
        self.begin(epoch_s)

    def begin(self, epoch_s: float) -> None:
        """Set the run's start to the Unix time `epoch_s`, which is known only when all nodes have started."""
        self.epoch_s = epoch_s
        self._offset_s = time.time() - time.monotonic() - epoch_s

    def now_s(self) -> float:
        """Return the emulated seconds since the run's start."""
        return (time.monotonic() + self._offset_s) / self.stretch

    def time_of_day_s(self, emulated_s: float) -> float:
        """Return the Unix time of a point in the run, given in emulated seconds since the run's start."""
        return self.epoch_s + emulated_s * self.stretch

    def since_start_s(self, time_of_day_s: float) -> float:
        """Return the emulated seconds from the run's start to the Unix time `time_of_day_s`."""
        return (time_of_day_s - self.epoch_s) / self.stretch

    def real_s(self, emulated_s: float) -> float:
        """Return the number of real seconds in `emulated_s` emulated seconds."""
        return emulated_s * self.stretch

    async def sleep(self, emulated_s: float) -> None:
        """Sleep for `emulated_s` emulated seconds."""
        await asyncio.sleep(self.real_s(emulated_s))

    @staticmethod
    def host_time_s() -> float:
        """Return the Unix time by this host's clock, which attempts on the host also read."""
        return time.time()

    @staticmethod
    def start(stretch: float = 1.0) -> RunClock:
        """Return a clock whose run starts now.

        `stretch` is the number of real seconds per emulated second.
        """
        return RunClock(time.time(), stretch)
