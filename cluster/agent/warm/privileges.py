"""The privileges of attempts on their host: if the agent is root, each attempt runs as a separate user.

The user changes before the attempt's own code. The new user can write no file of a control group, and cannot
signal or trace processes of the agent. It keeps one capability, to read files: Python and its packages, and
the run's folder, may be below a home folder that is closed to others. It can write only files that it owns:
its own folder, and map outputs. If the agent is not root, nothing is dropped, and limits that an attempt
could remove itself are reported as valid for cooperating code only.
"""

from __future__ import annotations

import ctypes
import os
import resource
import struct
from collections.abc import Iterable
from pathlib import Path

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_KEEPCAPS, PR_SET_NAME = 1, 4, 8, 15
PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 36, 38, 47
PR_CAP_AMBIENT_RAISE = 2
CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_KILL, CAP_SETGID, CAP_SETUID = 0, 1, 2, 5, 6, 7
CAPABILITY_VERSION_3 = 0x20080522
# Above the user ids of distributions, containers and user namespaces. Pids have 22 bits, groups of a node 6.
UID_BASE = 0x7000_0000
PLACES = 64
COMM_BYTES = 15
_libc = ctypes.CDLL(None, use_errno=True)


def can_drop() -> bool:
    """Return whether this process can run attempts as separate users."""
    needed = (CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_KILL, CAP_SETGID, CAP_SETUID)
    return os.geteuid() == 0 and _may(needed)


def attempt_uid(agent_pid: int, place: int) -> int:
    """Return the user id of the attempt in the group with index `place` of an agent's node.

    No two attempts that run at the same time share a user id.
    """
    return UID_BASE + agent_pid % 2**22 * PLACES + place % PLACES


def drop_to(uid: int, processes: int) -> None:
    """Become the user `uid`, and the group of the same id, permanently. Raises OSError.

    `processes` limits the number of the user's processes.
    """
    readable = _may([CAP_DAC_READ_SEARCH])
    resource.setrlimit(resource.RLIMIT_NPROC, (processes, processes))
    prctl(PR_SET_KEEPCAPS, 1)
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    kept = 1 << CAP_DAC_READ_SEARCH if readable else 0
    _set_capabilities(kept)
    if kept:
        prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_DAC_READ_SEARCH)
    prctl(PR_SET_DUMPABLE, 1)  # Otherwise the process's files below /proc would belong to root.


def prctl(option: int, *arguments: int) -> None:
    """Call the system call prctl with `option` and up to four arguments. Raises OSError."""
    padded = [ctypes.c_ulong(each) for each in (*arguments, 0, 0, 0, 0)[:4]]
    if _libc.prctl(option, *padded):
        number = ctypes.get_errno()
        raise OSError(number, f"prctl {option}: {os.strerror(number)}")


def name_process(name: str) -> None:
    """Set the process name that `ps -o comm` shows, cut to 15 bytes.

    The command line of a fork remains that of the process it was forked from.
    """
    text = ctypes.create_string_buffer(name.encode()[:COMM_BYTES])
    prctl(PR_SET_NAME, ctypes.addressof(text))


def _may(capabilities: Iterable[int]) -> bool:
    """Return whether this process has all of these capabilities."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            held = int(line.split()[1], 16)
            return all(held >> capability & 1 for capability in capabilities)
    return False


def _set_capabilities(kept: int) -> None:
    """Keep only the capabilities in the bit mask `kept`. Raises OSError."""
    header = struct.pack("=Ii", CAPABILITY_VERSION_3, 0)
    data = struct.pack("=6I", kept, kept, kept, 0, 0, 0)
    if _libc.capset(header, data):
        number = ctypes.get_errno()
        raise OSError(number, f"capset: {os.strerror(number)}")
