"""Programs that leave their control group or raise its limits, and use CPU in children.

They join only groups above their own and change only schedbed's limits, which leaves the host unchanged.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator
from pathlib import Path

from schedbed.tasks.hostile.orders import CHILDREN, HostileWork, fork, spin, wait_for

PIDFD_GETFD = 438  # System call number, the same on every architecture.
UNLIMITED = {"cpu.cfs_quota_us": "-1", "cpu.max": "max", "memory.limit_in_bytes": "-1", "memory.max": "max"}
OURS = "schedbed"
_libc = ctypes.CDLL(None, use_errno=True)


def other_group(work: HostileWork) -> None:
    """Remove the limits of the control groups of the attempt and the node, move to the groups above, and use CPU."""
    for top, own in group_folders():
        if OURS in str(own):
            _lift(own)
            _lift(own.parent)
        for above in (top, *(path for path in own.parents if path.is_relative_to(top))):
            with contextlib.suppress(OSError):
                (above / "cgroup.procs").write_text(str(os.getpid()))
                break
    wait_for([fork(lambda: spin(work.seconds)) for _ in range(CHILDREN)])


def stolen_descriptors(work: HostileWork) -> None:
    """Steal the open descriptors of the agent's control group files, write "unlimited" to the files, and use CPU."""
    for file in stolen_files():
        name = _name_of(os.getpid(), file)
        for text in (UNLIMITED.get(name), str(os.getpid()) if name == "cgroup.procs" else None):
            if text is not None:
                with contextlib.suppress(OSError):
                    os.pwrite(file, text.encode(), 0)
        os.close(file)
    wait_for([fork(lambda: spin(work.seconds)) for _ in range(CHILDREN)])


def group_folders() -> list[tuple[Path, Path]]:
    """Return (mount point, this process's group) of each visible control group hierarchy."""
    own: dict[str, str] = {}
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        own.update(dict.fromkeys(names.split(","), path))
    found: list[tuple[Path, Path]] = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        root, point = left.split()[3:5]
        kind, _, options = right.split(maxsplit=2)
        names = [""] if kind == "cgroup2" else options.split(",") if kind == "cgroup" else []
        for path in (own[name] for name in names if name in own):
            inside = path.removeprefix(root) if root != "/" else path
            found.append((Path(point), Path(point) / inside.lstrip("/")))
            break
    return found


def stolen_files() -> Iterator[int]:
    """Yield duplicates of control group files of the agent and the attempt's parent, if permitted."""
    for process in (os.getppid(), _parent_of(os.getppid())):
        try:
            numbers = [int(path.name) for path in Path(f"/proc/{process}/fd").iterdir()]
            handle = os.pidfd_open(process)
        except OSError:
            continue
        try:
            for number in numbers:
                with contextlib.suppress(OSError):
                    if _name_of(process, number) in {*UNLIMITED, "cgroup.procs"}:
                        file = int(_libc.syscall(PIDFD_GETFD, handle, number, 0))
                        if file >= 0:
                            yield file
        finally:
            os.close(handle)


def _parent_of(process: int) -> int:
    """Return a process's parent. Raises OSError if it is gone."""
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def _name_of(process: int, descriptor: int) -> str:
    """Return the name behind a descriptor. Raises OSError."""
    return Path(f"/proc/{process}/fd/{descriptor}").readlink().name


def _lift(group: Path) -> None:
    """Set all limits of one of schedbed's groups to unlimited."""
    for name, text in UNLIMITED.items():
        if OURS in str(group) and (group / name).exists():
            with contextlib.suppress(OSError):
                (group / name).write_text(text)
