"""A description of this host, and samples of its CPU load during a run."""

from __future__ import annotations

import importlib.metadata
import platform
from typing import TYPE_CHECKING, Any

import psutil

if TYPE_CHECKING:
    from schedbed.cluster.clock import RunClock

SAMPLE_S = 1.0
PACKAGES = ("schedbed", "ray", "numpy", "pandas", "aiohttp")


def describe_host() -> dict[str, Any]:
    """Return this host's number of cores, memory in bytes, and operating system."""
    return {
        "cores": psutil.cpu_count() or 1,
        "memory_bytes": psutil.virtual_memory().total,
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
    }


def versions() -> dict[str, str]:
    """Return the versions of Python and of the installed packages that affect a run, as a dictionary."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        found[package] = importlib.metadata.version(package)
    return found


class HostWatch:
    """Samples the CPU load: [seconds since the run's start, share in use] about every second."""

    def __init__(self, clock: RunClock) -> None:
        self._clock = clock
        self._next_s = clock.now_s() + SAMPLE_S
        self.samples: list[list[float]] = []
        psutil.cpu_percent(None)

    def look(self) -> None:
        """Take a sample of the CPU load if the last sample is at least `SAMPLE_S` seconds old."""
        now_s = self._clock.now_s()
        if now_s >= self._next_s:
            self._next_s = now_s + SAMPLE_S
            self.samples.append([round(now_s, 3), psutil.cpu_percent(None) / 100])
