"""The one place of the live cluster that reads the clock: seconds since a run's start, the same on each host."""

from __future__ import annotations

import time


class RunClock:
    """Seconds since `epoch_s` (a time of day); steady within a process, agreed between processes of a run."""

    def __init__(self, epoch_s: float) -> None:
        self.begin(epoch_s)

    def begin(self, epoch_s: float) -> None:
        """Counts from another start from now on: the run's start is known only after its nodes are up."""
        self.epoch_s = epoch_s
        self._offset_s = time.time() - time.monotonic() - epoch_s

    def now_s(self) -> float:
        """Seconds since the run's start."""
        return time.monotonic() + self._offset_s

    @staticmethod
    def start() -> RunClock:
        """A clock whose run starts now."""
        return RunClock(time.time())
