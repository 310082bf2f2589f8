"""The clock of live runs: emulated seconds since the run's start, the same on every host.

One lasts `stretch` real seconds. All times that are displayed, stored or sent are emulated, and live runs
read them from a `RunClock` only.
"""

from __future__ import annotations

import asyncio
import time


class RunClock:
    """Emulated seconds since the Unix time `epoch_s`, monotonic in a process. `stretch` is real per emulated."""

    def __init__(self, epoch_s: float, stretch: float = 1.0) -> None:
        self.stretch = stretch
        self.begin(epoch_s)

    def begin(self, epoch_s: float) -> None:
        """Set the run's start, which is known only when all nodes have started."""
        self.epoch_s = epoch_s
        self._offset_s = time.time() - time.monotonic() - epoch_s

    def now_s(self) -> float:
        return (time.monotonic() + self._offset_s) / self.stretch

    def time_of_day_s(self, emulated_s: float) -> float:
        return self.epoch_s + emulated_s * self.stretch

    def since_start_s(self, time_of_day_s: float) -> float:
        return (time_of_day_s - self.epoch_s) / self.stretch

    def real_s(self, emulated_s: float) -> float:
        return emulated_s * self.stretch

    async def sleep(self, emulated_s: float) -> None:
        await asyncio.sleep(self.real_s(emulated_s))

    @staticmethod
    def host_time_s() -> float:
        """Return the Unix time by this host's clock, which attempts also read."""
        return time.time()

    @staticmethod
    def start(stretch: float = 1.0) -> RunClock:
        """Return a clock whose run starts now. `stretch` is the number of real seconds per emulated second."""
        return RunClock(time.time(), stretch)
