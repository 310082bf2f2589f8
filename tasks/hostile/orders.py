"""The parameters of hostile programs, and helpers to fork and to use CPU.

Each program ends even if no limit stops the program.
"""

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
    """The parameters of a hostile program: duration in seconds, and the largest number of bytes to write or
    hold.

    `folder` is on the node's disk. `peer` and `port` are the address of the program that receives bytes.
    """

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
    """Fork a child process that calls `work` and exits. Return the child's process id.

    If `own_session` is True, the child leaves the attempt's process group and session.
    """
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
    """Wait for the child processes to end. Return the numbers of the signals that killed some of them."""
    statuses = [os.waitpid(pid, 0)[1] for pid in pids]
    return [os.WTERMSIG(status) for status in statuses if os.WIFSIGNALED(status)]
