"""The parameters of hostile programs, each of which ends even without a limit, and helpers to fork and use CPU."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

CHILDREN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class HostileWork:
    """A hostile program's seconds, and most bytes to write or hold. `peer` and `port` receive bytes."""

    folder: Path
    seconds: float
    size_bytes: int = 0
    peer: str = ""
    port: int = 0


Program = Callable[[HostileWork], None]


def spin(seconds: float) -> None:
    """Use CPU without pause for `seconds` of wall-clock time."""
    value, end_s = 1, time.monotonic() + seconds
    while time.monotonic() < end_s:
        for _ in range(1500):
            value = value * 1103515245 + 12345 & 0x7FFFFFFF


def fork(work: Callable[[], None], *, own_session: bool = False) -> int:
    """Fork a child that calls `work`, in the attempt's session unless `own_session`. Return its pid."""
    pid = os.fork()
    if pid:
        return pid
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if own_session:
            os.setsid()
        work()
    finally:
        os._exit(0)


def wait_for(pids: list[int]) -> list[int]:
    """Wait for children. Return the signals that killed some of them."""
    statuses = [os.waitpid(pid, 0)[1] for pid in pids]
    return [os.WTERMSIG(status) for status in statuses if os.WIFSIGNALED(status)]
