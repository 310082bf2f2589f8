"""The code of a process forked from the zygote: drop the zygote's resources, wait for an attempt, and run it.

The fork has a socket to the agent. The agent's order contains the CPU limit that the fork applies to itself
just before the attempt's own code. The fork then sends `begin`, so that the limit needs no round trip and
setup is not charged to the attempt. It sends `done` when the attempt's own code has ended, and `ended` when
the report is written. The agent trusts these messages as little as the report: code that sends them falsely
harms only its own attempt.
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
"""Runs an attempt, with its own code inside the context that limits it, and returns the exit code."""

THREAD_STACK_BYTES = 512 * 1024  # stacks count against an attempt's memory
OPEN_MAX = 1 << 20
READ_BYTES = 1 << 16
EXIT_SETUP = 70  # exit code of an attempt that did not reach its own code


@dataclass(slots=True)
class ForkSetup:
    """The parameters that all forks of a zygote share.

    `run` runs an attempt. `node` describes the node; its data about the run comes with each order.
    `limit_memory` says whether memory is limited. `processes` is the maximum number of processes of an
    attempt that runs as a separate user.
    """

    run: Run
    node: NodeContext
    limit_memory: bool
    processes: int


def become_attempt(parent: int, keep: int, uid: int | None, processes: int) -> None:
    """Turn this forked process into an attempt's process, which dies with the zygote `parent`.

    It gets its own session, and the user `uid` if given. The zygote's descriptors, except `keep`, and its
    signal handlers are dropped.
    """
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
    """Make the kernel kill this process before the agent when memory runs out.

    Must be called before the process becomes untraceable.
    """
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def wait_and_run(setup: ForkSetup, line: socket.socket) -> int:
    """Wait for the agent's order and run the ordered attempt. Return the exit code.

    Returns 0 if the connection closes before an order arrives.
    """
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
            line.recv(1)  # Wait until the agent kills this process.
    return code


def _hear(line: socket.socket) -> tuple[bytes, list[int]]:
    """Return the next line and the file descriptors sent with it. The line is empty at the end."""
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
    """Run the attempt with its output in its log and its memory limited. Return the exit code.

    The limit is `data_bytes`, the memory of this process before the attempt, plus the attempt's declared
    memory; None sets no limit.
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
    """Apply the CPU limit, and report the begin and end of the attempt's own code (the context's body).

    Raises OSError if the limit cannot be applied.
    """
    take_turns()
    if quota is not None:
        lay_down(quota)
    # The process is limited now, and its descriptor of the quota is closed. Before that, another attempt of the
    # same user could have traced the process and removed its limit.
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
