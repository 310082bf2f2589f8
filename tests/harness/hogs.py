"""Processes that compute without end, to load the host during a test."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# The same priority as attempts, if the host allows it: a process of lower priority would not load the host.
HOG = """
import contextlib, os
with contextlib.suppress(OSError):
    os.setpriority(os.PRIO_PROCESS, 0, 0)
while True:
    pass
"""


@contextmanager
def hogs(count: int) -> Iterator[None]:
    """Start `count` processes that compute, and kill them at the end."""
    made = [subprocess.Popen([sys.executable, "-c", HOG]) for _ in range(count)]
    try:
        yield
    finally:
        for process in made:
            process.kill()
            process.wait()
