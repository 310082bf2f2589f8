"""CPU priority for the processes of a run: masters, TaskTrackers and agents run before attempts.

Each millisecond that they wait for the CPU is a delay that a real cluster does not have. They ask for short
time slices, with which the kernel runs a waking process first (EEVDF, Linux 6.12 and newer) without giving it
more CPU time, and where permitted for a larger share.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import struct
from pathlib import Path

FIRST_NICE, PLAIN_NICE = -5, 0
SLICE_NS = 100_000  # the kernel's minimum
_SCHED_SETATTR = {"x86_64": 314, "aarch64": 274}.get(platform.machine())
_libc = ctypes.CDLL(None, use_errno=True)


def raise_priority() -> None:
    """Give this process's threads, and later children, as much priority as the host permits."""
    for thread in [int(task.name) for task in Path("/proc/self/task").iterdir()]:
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, thread, FIRST_NICE)
        _ask_for_slices(thread, SLICE_NS)


def reset_priority() -> None:
    """Reset this thread to the default priority and time slice, after it inherited those of `raise_priority`."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, max(PLAIN_NICE, os.getpriority(os.PRIO_PROCESS, 0)))
    _ask_for_slices(0, 0)


def _ask_for_slices(thread: int, length_ns: int) -> None:
    """Request time slices for a thread; 0 means the kernel's default. Older kernels ignore it."""
    if _SCHED_SETATTR is None:
        return
    with contextlib.suppress(OSError):  # The thread may have ended.
        nice = os.getpriority(os.PRIO_PROCESS, thread)
        attributes = struct.pack("=IIQiIQQQ", 48, os.SCHED_OTHER, 0, nice, 0, length_ns, 0, 0)
        _libc.syscall(_SCHED_SETATTR, thread, attributes, 0)
