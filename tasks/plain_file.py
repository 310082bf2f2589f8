"""The check that a path names a file whose reading ends."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

KERNEL_FOLDERS = ("/proc", "/sys")


def is_plain_file(path: Path) -> bool:
    """Return whether a path names a regular file on a disk. Reading others, such as /proc/kmsg, may never end."""
    kernel: list[int] = []
    for folder in KERNEL_FOLDERS:
        with suppress(OSError):
            kernel.append(Path(folder).stat().st_dev)
    return path.is_file() and path.stat().st_dev not in kernel
