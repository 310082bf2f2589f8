"""How soon processes of a run get a CPU when they wake: masters, TaskTrackers and agents before attempts.

What they do is part of no attempt, so that each millisecond that they wait is time between two attempts which a real
cluster has not. They ask for slices shorter than any other's, which lets a process that wakes go first (EEVDF, Linux
6.12 and newer) and gives it no more CPU time; for a larger share, where they may. Attempts have the ordinary ones.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import struct
from pathlib import Path

FIRST_NICE, PLAIN_NICE = -5, 0
SLICE_NS = 100_000  # the kernel's least
_SCHED_SETATTR = {"x86_64": 314, "aarch64": 274}.get(platform.machine())
_libc = ctypes.CDLL(None, use_errno=True)


def go_first() -> None:
    """Has all threads of this process, and what they start, run before others. Does what the host allows."""
    for thread in [int(task.name) for task in Path("/proc/self/task").iterdir()]:
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, thread, FIRST_NICE)
        _ask_for_slices(thread, SLICE_NS)


def take_turns() -> None:
    """Give up in this thread what it has of `go_first`."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, max(PLAIN_NICE, os.getpriority(os.PRIO_PROCESS, 0)))
    _ask_for_slices(0, 0)


def _ask_for_slices(thread: int, length_ns: int) -> None:
    """Slices of that length in the ordinary class, the kernel's own for 0; older kernels do not care."""
    if _SCHED_SETATTR is None:
        return
    with contextlib.suppress(OSError):  # it may have ended
        nice = os.getpriority(os.PRIO_PROCESS, thread)
        attributes = struct.pack("=IIQiIQQQ", 48, os.SCHED_OTHER, 0, nice, 0, length_ns, 0, 0)
        _libc.syscall(_SCHED_SETATTR, thread, attributes, 0)
