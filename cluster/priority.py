"""CPU scheduling priority of a run's processes: masters, TaskTrackers and agents before attempts.

The work of these processes belongs to no attempt, so each millisecond that they wait is a delay between
attempts that a real cluster does not have. They request shorter time slices than other processes, which lets
a waking process run first (EEVDF, Linux 6.12 and newer) without more CPU time, and a larger CPU share where
permitted. Attempts have the default settings.
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


def go_first() -> None:
    """Give the threads of this process, and its later children, priority over other processes.

    The priority is as high as the host allows.
    """
    for thread in [int(task.name) for task in Path("/proc/self/task").iterdir()]:
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, thread, FIRST_NICE)
        _ask_for_slices(thread, SLICE_NS)


def take_turns() -> None:
    """Reset this thread to the default priority and time slice, after `go_first`."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, max(PLAIN_NICE, os.getpriority(os.PRIO_PROCESS, 0)))
    _ask_for_slices(0, 0)


def _ask_for_slices(thread: int, length_ns: int) -> None:
    """Request time slices of `length_ns` for a thread in the default scheduling class.

    A length of 0 requests the kernel's default. Older kernels ignore the request.
    """
    if _SCHED_SETATTR is None:
        return
    with contextlib.suppress(OSError):  # The thread may have ended.
        nice = os.getpriority(os.PRIO_PROCESS, thread)
        attributes = struct.pack("=IIQiIQQQ", 48, os.SCHED_OTHER, 0, nice, 0, length_ns, 0, 0)
        _libc.syscall(_SCHED_SETATTR, thread, attributes, 0)
