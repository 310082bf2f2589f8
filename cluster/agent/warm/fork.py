"""The code of a process forked from the zygote: close the zygote's files, wait for an attempt, and run it.

The process limits its own CPU just before the application's code and sends `begin` without waiting, so its
setup is not charged. It sends `done` after the code, and `ended` after the report, or `broke` after an
exception. The code could send false messages, so the agent applies them to this attempt only.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import resource
import signal
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from schedbed.cluster.agent.cgroups import Quota, apply_quota
from schedbed.cluster.priority import reset_priority
from schedbed.tasks.context import NodeContext
from schedbed.tasks.pacing import own_cpu_s
from schedbed.tasks.specs import AttemptSpec

Message = dict[str, Any]
Run = Callable[[AttemptSpec, NodeContext, AbstractContextManager[None]], int]
"""Runs an attempt, with its own code inside the context that limits it, and returns the exit code."""

THREAD_STACK_BYTES = 512 * 1024  # stacks count against an attempt's memory
OPEN_MAX = 1 << 20
READ_BYTES = 1 << 16
EXIT_SETUP = 70  # exit code of an attempt that raised an exception, or could not be set up
EXIT_ORPHAN = 71  # exit code of a process whose zygote ended before the process was set up
ERROR_CHARS = 200


@dataclass(slots=True)
class ForkSetup:
    """The settings of all processes of a zygote. `processes` limits an attempt that runs as a separate user."""

    run: Run
    node: NodeContext
    limit_memory: bool
    processes: int


def become_attempt(parent: int, keep: int, uid: int | None, processes: int) -> None:
    """Become an attempt's process, with its own session, which ends if the zygote `parent` ends.

    The user `uid` may have at most `processes` processes. Only the descriptor `keep` and the standard ones
    stay open.
    """
    os.setsid()
    _go_first()
    if uid is not None:
        drop_to(uid, processes)
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != parent:
        os._exit(EXIT_ORPHAN)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.closerange(3, keep)
    os.closerange(max(3, keep + 1), OPEN_MAX)
    threading.stack_size(THREAD_STACK_BYTES)
    gc.enable()


def _go_first() -> None:
    """Make the kernel kill this process before the agent when memory runs out, unless it refuses."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def wait_and_run(setup: ForkSetup, line: socket.socket) -> int:
    """Wait for an order on `line` and run its attempt; return the exit code, or 0 if `line` closes first.

    An exception is passed on after the message `broke`: the attempt's log may not be open yet.
    """
    data_bytes = _data_bytes() if setup.limit_memory else None
    with line:
        text, descriptors = _hear(line)
        if not text:
            return 0
        woke_cpu_s = own_cpu_s()
        try:
            order = json.loads(text)
            quota = None if order["quota"] is None else Quota(descriptors.pop(), order["quota"])
            setup.node = replace(setup.node, **order["met"])
            code = _run(setup, order["spec"], _held(line, quota, woke_cpu_s), data_bytes)
        except BaseException as error:
            _say(line, {"type": "broke", "error": f"{type(error).__name__}: {error}"[:ERROR_CHARS]})
            raise
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        _say(line, {"type": "ended", "code": code, "memory_peak_bytes": _peak_bytes()})
        with contextlib.suppress(OSError):
            line.recv(1)  # Wait until the agent kills this process.
    return code


def _hear(line: socket.socket) -> tuple[bytes, list[int]]:
    """Return the next line, empty if the socket was closed, and the descriptors sent with it."""
    text, descriptors = b"", list[int]()
    while not text.endswith(b"\n"):
        data, brought, _, _ = socket.recv_fds(line, READ_BYTES, 1, socket.MSG_CMSG_CLOEXEC)
        if not data:
            return b"", descriptors
        text, descriptors = text + data, descriptors + brought
    return text, descriptors


def _run(
    setup: ForkSetup, spec: Message, limited: AbstractContextManager[None], data_bytes: int | None
) -> int:
    """Run an attempt, with its output in a log. `limited` is the context for the application's code.

    `data_bytes` is this process's memory before, which the memory limit adds to that of the attempt; None
    means no limit.
    """
    log = os.open(
        setup.node.root / "attempts" / spec["attempt"] / "log", os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600
    )
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    if data_bytes is not None:
        limit = data_bytes + spec["memory_bytes"]
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    return setup.run(AttemptSpec.from_json(spec), setup.node, limited)


@contextlib.contextmanager
def _held(line: socket.socket, quota: Quota | None, woke_cpu_s: float) -> Iterator[None]:
    """Limit the CPU while the application's code runs. Send `begin` with the setup's CPU seconds, later `done`."""
    reset_priority()
    if quota is not None:
        apply_quota(quota)
    # The process is limited now, and its descriptor of the quota is closed. Before that, another attempt of the
    # same user could have traced the process and removed its limit.
    prctl(PR_SET_DUMPABLE, 1)
    _go_first()
    _say(line, {"type": "begin", "setup_cpu_s": own_cpu_s() - woke_cpu_s})
    try:
        yield
    finally:
        _say(line, {"type": "done"})


def _say(line: socket.socket, message: Message) -> None:
    with contextlib.suppress(OSError):
        line.sendall(json.dumps(message).encode() + b"\n")


def _peak_bytes() -> int:
    whose = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return max(resource.getrusage(who).ru_maxrss for who in whose) * 1024


def _data_bytes() -> int:
    """Return the private writable bytes of this process, which RLIMIT_DATA limits."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmData:"):
            return int(line.split()[1]) * 1024
    raise OSError("/proc/self/status has no VmData")


# The privileges of attempts on their host: if the agent is root, each attempt runs as a separate user.
#
# The process of an attempt changes its user before it runs the application's code. The new user cannot
# write files of control groups, and cannot signal or trace processes of the agent. This user keeps one
# capability, to read all files, because Python, its packages and the run's folder may be in a home folder
# that other users cannot read. The user can write only files that it owns: its own folder, and map outputs.
#
# If the agent is not root, attempts keep all privileges. An attempt could then remove some of its limits,
# so the node reports these limits as valid for cooperating code only.

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
    needed = (CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_KILL, CAP_SETGID, CAP_SETUID)
    return os.geteuid() == 0 and _may(needed)


def attempt_uid(agent_pid: int, place: int) -> int:
    """Return an attempt's user id. No two attempts that run at the same time have the same."""
    return UID_BASE + agent_pid % 2**22 * PLACES + place % PLACES


def drop_to(uid: int, processes: int) -> None:
    """Become the user and group `uid` permanently. Raises OSError."""
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
    """Set the name that `ps -o comm` shows; the command line stays that of the parent."""
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
