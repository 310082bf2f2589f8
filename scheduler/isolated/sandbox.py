"""Confines this process until its end: no files but Python's own, no network, no other process, bounded resources.

Landlock refuses files, seccomp the calls that reach a network or another process. What the kernel does not
have is told, and the rest still holds.
"""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import struct
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 1, 4, 22, 38
SIGKILL, FILTER = 9, 2
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
READ_FILES = 1 << 2 | 1 << 3
ALL_FILES = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1}
CLONE_THREAD = 0x10000
ALLOW, ERRNO, EPERM, ENOSYS = 0x7FFF0000, 0x00050000, 1, 38
LOAD, EQUAL, BITS, AT_LEAST, RETURN = 0x20, 0x15, 0x45, 0x35, 0x06

# By machine: its number for audits, and the numbers of clone, clone3, tgkill, and of the calls that are refused:
# sockets, programs, signals, other processes' memory, System V and POSIX queues, kernel interfaces.
CALLS = {
    "x86_64": (
        0xC000003E,
        (56, 435, 234),
        "29 30 41 53 57 58 59 62 64 68 101 129 155 161 165 166 200 203 240 248 249 250 272 297 298 302 303 304 "
        "308 310 311 312 319 321 322 323 424 425 434 438 440 447",
    ),
    "aarch64": (
        0xC00000B7,
        (220, 435, 131),
        "40 39 41 51 97 117 122 129 130 138 180 186 190 194 196 198 199 217 218 219 221 240 241 261 264 265 268 "
        "270 271 272 279 280 281 282 424 425 434 438 440 447",
    ),
}


def confine(readable: Sequence[str], *, memory_bytes: int, cpu_s: int, user: int | None) -> None:
    """Confine this process, which must have one thread. Raises OSError if it cannot, unless `unconfined` says why.

    `readable` are the files and folders that it may read. `user` is the user id to take, which only root can.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)
    for limit, most in (
        (resource.RLIMIT_DATA, memory_bytes),
        (resource.RLIMIT_CPU, cpu_s),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, 64),
    ):
        resource.setrlimit(limit, (most, most))
    if user is not None:
        with suppress(PermissionError):
            os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if _landlock(libc) > 0:
        _only_read(libc, readable)
    if platform.machine() in CALLS:
        _refuse_calls(libc)


def unconfined() -> list[str]:
    """Return a line for each promise that this kernel or machine does not keep."""
    libc, found = ctypes.CDLL(None, use_errno=True), []
    if _landlock(libc) < 1:
        found.append("this kernel has no Landlock, so files are not refused")
    if platform.machine() not in CALLS:
        found.append(
            f"the calls of {platform.machine()} are not known, so networks and processes are not refused"
        )
    return found


def _landlock(libc: ctypes.CDLL) -> int:
    """Return the version of Landlock in the kernel, -1 without it."""
    return libc.syscall(CREATE_RULESET, None, 0, 1)


def _check(result: int, what: str) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), f"{what} failed")
    return result


def _only_read(libc: ctypes.CDLL, paths: Iterable[str]) -> None:
    """Let the process open only these paths, for reading."""
    version = _landlock(libc)
    handled = ALL_FILES.get(version, (1 << 16) - 1)
    attributes = struct.pack("=QQQ", handled, 3 if version >= 4 else 0, 3 if version >= 6 else 0)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    rules = _check(libc.syscall(CREATE_RULESET, attributes, size, 0), "landlock_create_ruleset")
    for path in paths:
        with suppress(OSError):
            place = os.open(path, os.O_PATH | os.O_CLOEXEC)
            allowed = READ_FILES if Path(path).is_dir() else 1 << 2
            libc.syscall(ADD_RULE, rules, 1, struct.pack("=Qi", allowed, place), 0)
            os.close(place)
    _check(libc.syscall(RESTRICT_SELF, rules, 0), "landlock_restrict_self")
    os.close(rules)


def _refuse_calls(libc: ctypes.CDLL) -> None:
    """Let calls that reach networks, other processes or kernel interfaces fail with EPERM."""
    steps = _filter(*CALLS[platform.machine()])
    code = b"".join(struct.pack("=HBBI", *step) for step in steps)
    held = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("=HxxxxxxQ", len(steps), ctypes.addressof(held))
    _check(libc.prctl(PR_SET_SECCOMP, FILTER, program, 0, 0), "seccomp")


def _filter(audit: int, numbers: tuple[int, int, int], refused: str) -> list[tuple[int, int, int, int]]:
    """Return the instructions of the filter: (code, jump if true, jump if false, value)."""
    clone, clone3, tgkill = numbers
    refuse = (RETURN, 0, 0, ERRNO | EPERM)
    allow = (RETURN, 0, 0, ALLOW)
    steps = [
        (LOAD, 0, 0, 4),
        (EQUAL, 1, 0, audit),
        refuse,
        (LOAD, 0, 0, 0),
        (AT_LEAST, 0, 1, 1 << 30),
        refuse,
    ]
    for number in map(int, refused.split()):
        steps += [(EQUAL, 0, 1, number), refuse]
    # The C library makes threads by clone where clone3 is missing, whose flags a filter cannot read.
    steps += [(EQUAL, 0, 1, clone3), (RETURN, 0, 0, ERRNO | ENOSYS)]
    steps += [(EQUAL, 0, 4, clone), (LOAD, 0, 0, 16), (BITS, 0, 1, CLONE_THREAD), allow, refuse]
    steps += [(EQUAL, 0, 4, tgkill), (LOAD, 0, 0, 16), (EQUAL, 0, 1, os.getpid()), allow, refuse]
    return [*steps, allow]


def others_can_read(path: str) -> bool:
    """Return whether any user can reach and read this file or folder."""
    each = Path(path).resolve()
    if not each.stat().st_mode & 0o004:
        return False
    return all(
        parent.stat().st_mode & 0o001 for parent in (*each.parents, *([each] if each.is_dir() else []))
    )
