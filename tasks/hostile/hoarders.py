"""Programs that use more memory than declared, in ways that escape a limit on a process's data segment."""

from __future__ import annotations

import contextlib
import mmap
import os
import time
from pathlib import Path

from schedbed.tasks.hostile.orders import CHILDREN, HostileWork, fork, wait_for

STEP_BYTES = 8 * 2**20
PAGE_BYTES = mmap.PAGESIZE
SHARED_MEMORY = Path("/dev/shm")


def private(work: HostileWork) -> None:
    """Hold memory as private memory of one process."""
    held = [b"\1" * step for step in _steps(work)]
    time.sleep(work.seconds)
    del held


def shared(work: HostileWork) -> None:
    """Hold memory as anonymous shared memory, which belongs to no single process."""
    held = [_touched(mmap.mmap(-1, step)) for step in _steps(work)]
    time.sleep(work.seconds)
    del held


def shared_files(work: HostileWork) -> None:
    """Hold memory as unnamed files in /dev/shm and, after /dev/shm is full, as anonymous shared memory."""
    held: list[mmap.mmap] = []
    with contextlib.ExitStack() as files:
        room = True
        for step in _steps(work):
            if room:
                try:
                    held.append(_touched(files.enter_context(_file_in_memory(step))))
                    continue
                except OSError:  # /dev/shm is missing or full.
                    room = False
            held.append(_touched(mmap.mmap(-1, step)))
        time.sleep(work.seconds)


def children(work: HostileWork) -> None:
    """Hold private memory in several child processes, with an equal share of the total in each."""
    share = HostileWork(
        folder=work.folder, seconds=work.seconds, size_bytes=work.size_bytes // CHILDREN, port=work.port
    )
    wait_for([fork(lambda: private(share)) for _ in range(CHILDREN)])


def _steps(work: HostileWork) -> list[int]:
    whole, rest = divmod(work.size_bytes, STEP_BYTES)
    return [STEP_BYTES] * whole + ([rest] if rest else [])


def _touched(memory: mmap.mmap) -> mmap.mmap:
    for at in range(0, len(memory), PAGE_BYTES):
        memory[at] = 1
    return memory


def _file_in_memory(size: int) -> mmap.mmap:
    """Return a mapped, unnamed file in /dev/shm, which ends with its last user. Raises OSError."""
    file = os.open(SHARED_MEMORY, os.O_TMPFILE | os.O_RDWR, 0o600)
    try:
        os.posix_fallocate(file, 0, size)
        return mmap.mmap(file, size)
    finally:
        os.close(file)
