"""The privileges of attempts on their host: if the agent is root, each attempt runs as a separate user.

The process of an attempt changes its user before it runs the application's code. The new user cannot write
files of control groups, and cannot signal or trace processes of the agent. This user keeps one capability, to
read all files, because Python, its packages and the run's folder may be in a home folder that other users
cannot read. The user can write only files that it owns: its own folder, and map outputs.

If the agent is not root, attempts keep all privileges. An attempt could then remove some of its limits, so
the node reports these limits as valid for cooperating code only.
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
    """Return whether this process has the privileges to run attempts as separate users."""
    needed = (CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_KILL, CAP_SETGID, CAP_SETUID)
    return os.geteuid() == 0 and _may(needed)


def attempt_uid(agent_pid: int, place: int) -> int:
    """Return the user id for an attempt that runs in the agent's group of processes with index `place`.

    No two attempts that run at the same time have the same user id.
    """
    return UID_BASE + agent_pid % 2**22 * PLACES + place % PLACES


def drop_to(uid: int, processes: int) -> None:
    """Become the user `uid` and the group with the same id permanently. Raises OSError.

    The new user may have at most `processes` processes.
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
    """Make the system call prctl with `option` and up to four arguments. Raises OSError."""
    padded = [ctypes.c_ulong(each) for each in (*arguments, 0, 0, 0, 0)[:4]]
    if _libc.prctl(option, *padded):
        number = ctypes.get_errno()
        raise OSError(number, f"prctl {option}: {os.strerror(number)}")


def name_process(name: str) -> None:
    """Set the name of this process, which `ps -o comm` shows, to the first 15 bytes of `name`.

    The command line of a forked process remains that of the process it was forked from.
    """
    text = ctypes.create_string_buffer(name.encode()[:COMM_BYTES])
    prctl(PR_SET_NAME, ctypes.addressof(text))


def _may(capabilities: Iterable[int]) -> bool:
    """Return whether this process has all of the Linux capabilities with these numbers."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            held = int(line.split()[1], 16)
            return all(held >> capability & 1 for capability in capabilities)
    return False


def _set_capabilities(kept: int) -> None:
    """Remove all Linux capabilities of this process except those in the bit mask `kept`. Raises OSError."""
    header = struct.pack("=Ii", CAPABILITY_VERSION_3, 0)
    data = struct.pack("=6I", kept, kept, kept, 0, 0, 0)
    if _libc.capset(header, data):
        number = ctypes.get_errno()
        raise OSError(number, f"capset: {os.strerror(number)}")
