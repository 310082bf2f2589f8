"""Runs a module with a user's code without network and capabilities: `python -m ... confined MODULE FD`.

It keeps its user id, since it needs the user's files. Where the kernel refuses a step, the others still hold.
"""

from __future__ import annotations

import ctypes
import os
import runpy
import sys
from contextlib import suppress
from pathlib import Path

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 24, 38
CAPABILITY_VERSION_3 = 0x20080522
CAPABILITIES = 64


def confine() -> None:
    """Leave the network and give up all capabilities, also those of programs that are started later."""
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.getuid(), os.getgid()
    if libc.unshare(CLONE_NEWNET) and not libc.unshare(CLONE_NEWUSER | CLONE_NEWNET):
        with suppress(OSError):  # Files keep their owners' names, which makes errors readable.
            Path("/proc/self/setgroups").write_text("deny")
            Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
            Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    for capability in range(CAPABILITIES):
        libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    libc.capset((ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0), (ctypes.c_uint32 * 6)())


if __name__ == "__main__":
    confine()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
