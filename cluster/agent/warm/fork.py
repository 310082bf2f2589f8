"""The life of a fork of the zygote: drop the zygote's resources, wait for an attempt, run it.

The fork has a socket to the agent. Its order contains the limit that the fork applies to itself just before the
attempt's own code. It then sends `begin`, so that no message goes back and forth and setup costs are not the
attempt's. It sends `done` when that code has ended, and `ended` when its report is written. These messages are
trusted as little as its report: code that sends them falsely only harms its own attempt.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import resource
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from schedbed.cluster.agent.group_files import Quota, lay_down
from schedbed.cluster.agent.warm import privileges
from schedbed.cluster.priority import take_turns
from schedbed.tasks.context import NodeContext
from schedbed.tasks.pacing import own_cpu_s
from schedbed.tasks.specs import AttemptSpec

Message = dict[str, Any]
Run = Callable[[AttemptSpec, NodeContext, AbstractContextManager[None]], int]
"""Runs an attempt, its own code inside the context that limits it; returns the exit code."""

THREAD_STACK_BYTES = 512 * 1024  # stacks count against an attempt's memory
OPEN_MAX = 1 << 20
READ_BYTES = 1 << 16
EXIT_SETUP = 70  # an attempt that did not get as far as its first line


@dataclass(slots=True)
class ForkSetup:
    """The parameters of every fork: runner, node, whether memory is limited, and the most processes of an attempt
    with a user of its own.

    What the node learns of its run comes with each order.
    """

    run: Run
    node: NodeContext
    limit_memory: bool
    processes: int


def become_attempt(parent: int, keep: int, uid: int | None, processes: int) -> None:
    """Turn a fork into an attempt: own session and user, death with the zygote, and none of its descriptors and
    signal handlers."""
    os.setsid()
    _go_first()
    if uid is not None:
        privileges.drop_to(uid, processes)
    privileges.prctl(privileges.PR_SET_NO_NEW_PRIVS, 1)
    privileges.prctl(privileges.PR_SET_CHILD_SUBREAPER, 1)
    privileges.prctl(privileges.PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != parent:
        os._exit(EXIT_SETUP)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.closerange(3, keep)
    os.closerange(max(3, keep + 1), OPEN_MAX)
    threading.stack_size(THREAD_STACK_BYTES)
    gc.enable()


def _go_first() -> None:
    """Make the kernel kill attempts before the agent when memory runs out. Must be done before the process becomes
    untraceable."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def wait_and_run(setup: ForkSetup, line: socket.socket) -> int:
    """Wait for the order of a spare fork and carry it out. Return 0 if the connection closes first."""
    data_bytes = _data_bytes() if setup.limit_memory else None
    with line:
        text, descriptors = _hear(line)
        if not text:
            return 0
        woke_cpu_s = own_cpu_s()
        order = json.loads(text)
        quota = None if order["quota"] is None else Quota(descriptors.pop(), order["quota"])
        setup.node = replace(setup.node, **order["met"])
        code = _run(setup, order["spec"], _held(line, quota, woke_cpu_s), data_bytes)
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        _say(line, {"type": "ended", "code": code, "memory_peak_bytes": _peak_bytes()})
        with contextlib.suppress(OSError):
            line.recv(1)  # the agent's kill comes at any time now
    return code


def _hear(line: socket.socket) -> tuple[bytes, list[int]]:
    """Return the next line, empty if the other end has closed, and the descriptors sent with it."""
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
    """Run the attempt with its output in its log and its memory limited. Return the exit code."""
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
    """Apply the limit and report the begin and end of the attempt's own code (the block). Raises OSError if it cannot
    be limited."""
    take_turns()
    if quota is not None:
        lay_down(quota)
    # Now that it is in its group and can write that no more: before, another attempt that is the same user could have
    # traced it out of there.
    privileges.prctl(privileges.PR_SET_DUMPABLE, 1)
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
    """Return this process's private writable memory in bytes, as RLIMIT_DATA counts it."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmData:"):
            return int(line.split()[1]) * 1024
    raise OSError("/proc/self/status has no VmData")
