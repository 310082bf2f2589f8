"""The one place of the live cluster that reads the clock: emulated seconds since a run's start, the same on each host.

An emulated second lasts `stretch` real ones. All times that are shown, stored or sent are emulated; what sleeps in
real time asks the clock how long.
"""

from __future__ import annotations

import time


class RunClock:
    """Emulated seconds since `epoch_s` (a time of day); steady within a process, agreed between processes of a run."""

    def __init__(self, epoch_s: float, stretch: float = 1.0) -> None:
        self.stretch = stretch
        self.begin(epoch_s)

    def begin(self, epoch_s: float) -> None:
        """Counts from another start from now on: the run's start is known only after its nodes are up."""
        self.epoch_s = epoch_s
        self._offset_s = time.time() - time.monotonic() - epoch_s

    def now_s(self) -> float:
        """Return the emulated seconds since the run's start."""
        return (time.monotonic() + self._offset_s) / self.stretch

    def time_of_day_s(self, emulated_s: float) -> float:
        """Return the time of day (Unix) of a time since the run's start."""
        return self.epoch_s + self.real_s(emulated_s)

    def real_s(self, emulated_s: float) -> float:
        """Return how long an emulated duration lasts for this host."""
        return emulated_s * self.stretch

    @staticmethod
    def host_time_s() -> float:
        """Return the time of day (Unix) by this host's clock, which attempts on the host read as well."""
        return time.time()

    @staticmethod
    def start(stretch: float = 1.0) -> RunClock:
        """Return a clock whose run starts now."""
        return RunClock(time.time(), stretch)
