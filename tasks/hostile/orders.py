"""The parameters of a hostile program, and its forks. Every program ends by itself, even without limits."""

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
    """The parameters of a program: how long it runs, the most bytes it takes, and its peer.

    `folder` is on the node's disk. `port` is where the receiver of raw bytes listens, `peer` its address.
    """

    folder: Path
    seconds: float
    size_bytes: int = 0
    peer: str = ""
    port: int = 0


Program = Callable[[HostileWork], None]


def spin(seconds: float) -> None:
    """Burn CPU for that many seconds of wall-clock time."""
    value, end_s = 1, time.monotonic() + seconds
    while time.monotonic() < end_s:
        for _ in range(1500):
            value = value * 1103515245 + 12345 & 0x7FFFFFFF


def fork(work: Callable[[], None], *, own_session: bool = False) -> int:
    """Fork a child that does the work and exits. Return its pid. `own_session`: outside of the attempt's process
    groups."""
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
    """Wait for these children. Return the signals that ended some of them."""
    statuses = [os.waitpid(pid, 0)[1] for pid in pids]
    return [os.WTERMSIG(status) for status in statuses if os.WIFSIGNALED(status)]
