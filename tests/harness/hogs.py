"""Processes that compute without end, beside a measurement."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# As plain a priority as attempts have, where the host allows it: what gives way to attempts does not count.
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
