"""A check that the host had spare CPU time: else an attempt that got little CPU was not held back by its limit.

The measuring thread has priority over the work it measures.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

IDLE_LEAST = 0.1  # of all cores' time
STEAL_MOST = 0.02
TOLD_S = 0.3  # of all cores' time, in ticks of 10 ms
AHEAD = -15  # of a thread's niceness; needs root
TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostClock:
    """The time of all cores together since boot: total, idle, and stolen by other machines on the same hardware."""

    total_s: float
    idle_s: float
    steal_s: float

    @classmethod
    def read(cls, stat: Path = Path("/proc/stat")) -> HostClock:
        """Return the kernel's current counts."""
        user, nice, system, idle, wait, irq, soft, steal = (
            int(ticks) * TICK_S for ticks in stat.read_text().split(maxsplit=9)[1:9]
        )
        spent_s = user + nice + system + irq + soft
        return cls(total_s=spent_s + idle + wait + steal, idle_s=idle + wait, steal_s=steal)

    @property
    def busy_s(self) -> float:
        """Return the seconds in which cores worked, or were taken by other machines on the same hardware."""
        return self.total_s - self.idle_s

    def busy_until(self, now: HostClock) -> str:
        """Return a text that says how busy the host was until `now`; empty if it had time to spare."""
        total_s = now.total_s - self.total_s
        if total_s < TOLD_S:
            return ""
        idle, steal = (now.idle_s - self.idle_s) / total_s, (now.steal_s - self.steal_s) / total_s
        if idle >= IDLE_LEAST and steal <= STEAL_MOST:
            return ""
        return f"its cores were idle for {idle:.0%} of the time, stolen for {steal:.0%}"


@contextlib.contextmanager
def ahead_of_others() -> Iterator[None]:
    """Give this thread priority over all others, as far as permitted, so that the measuring thread does not wait
    for the measured work."""
    thread = threading.get_native_id()
    before = os.getpriority(os.PRIO_PROCESS, thread)
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, thread, AHEAD)
    try:
        yield
    finally:
        with contextlib.suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, thread, before)
