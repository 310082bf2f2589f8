"""A check that the host had spare CPU time: without it, a low rate of an attempt proves no limit."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

IDLE_LEAST = 0.1  # Least idle share of all cores' time on a host with spare time.
STEAL_MOST = 0.02
TOLD_S = 0.3  # Least time of all cores in a measurement: the counters advance in ticks of 10 ms.
AHEAD = -15  # Niceness of the measuring thread; needs root.
TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostClock:
    """The CPU seconds of all cores together since boot: total, idle, and stolen by other virtual machines."""

    total_s: float
    idle_s: float
    steal_s: float

    @classmethod
    def read(cls, stat: Path = Path("/proc/stat")) -> HostClock:
        """Return the kernel's current counters of CPU time, read from the file `stat`."""
        user, nice, system, idle, wait, irq, soft, steal = (
            int(ticks) * TICK_S for ticks in stat.read_text().split(maxsplit=9)[1:9]
        )
        spent_s = user + nice + system + irq + soft
        return cls(total_s=spent_s + idle + wait + steal, idle_s=idle + wait, steal_s=steal)

    @property
    def busy_s(self) -> float:
        """Return the CPU seconds that were not idle, with stolen time."""
        return self.total_s - self.idle_s

    def busy_until(self, now: HostClock) -> str:
        """Describe the load between readings, or return "" if there was spare time, or too little to tell."""
        total_s = now.total_s - self.total_s
        if total_s < TOLD_S:
            return ""
        idle, steal = (now.idle_s - self.idle_s) / total_s, (now.steal_s - self.steal_s) / total_s
        if idle >= IDLE_LEAST and steal <= STEAL_MOST:
            return ""
        return f"its cores were idle for {idle:.0%} of the time, stolen for {steal:.0%}"


@contextlib.contextmanager
def ahead_of_others() -> Iterator[None]:
    """Raise the thread's priority if permitted, so that it does not wait for what it measures."""
    thread = threading.get_native_id()
    before = os.getpriority(os.PRIO_PROCESS, thread)
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, thread, AHEAD)
    try:
        yield
    finally:
        with contextlib.suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, thread, before)
