"""What a fork of the zygote does: leaves the zygote's things behind, waits for its attempt, runs it.

It has a line to the agent. It says `begin` there when the attempt's own code is about to begin, and goes on at `go`,
when the agent has laid its limits upon it; `done` when that code has ended, and `ended` when its report is written.
What it says is believed as little as its report: code that speaks in its place only hurts its own attempt.
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

from schedbed.cluster.agent.warm import privileges
from schedbed.tasks.context import NodeContext
from schedbed.tasks.specs import AttemptSpec

Message = dict[str, Any]
Run = Callable[[AttemptSpec, NodeContext, AbstractContextManager[None]], int]
"""Runs an attempt, its own code inside the context that limits it; returns the exit code."""

THREAD_STACK_BYTES = 512 * 1024  # stacks count against an attempt's memory
OPEN_MAX = 1 << 20
EXIT_SETUP = 70  # an attempt that did not get as far as its first line


@dataclass(slots=True)
class ForkSetup:
    """What every fork needs: the runner, the node (what it learns of its run comes with each order), whether memory
    is limited, and how many processes an attempt that is a user of its own may have."""

    run: Run
    node: NodeContext
    limit_memory: bool
    processes: int


def become_attempt(parent: int, keep: int, uid: int | None, processes: int) -> None:
    """A session and a user of its own, death with the zygote, none of its descriptors or signal handlers."""
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
    """Where memory ends, an attempt goes, not the agent. A process that may not be traced cannot say so as a user."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def wait_and_run(setup: ForkSetup, line: socket.socket) -> int:
    """A spare's life: waits for its order and obeys; a closed line means that none will come."""
    with line, line.makefile("rb") as heard:
        text = heard.readline()
        if not text:
            return 0
        # Now in its control group: before, another attempt that is the same user could have traced it out of there.
        privileges.prctl(privileges.PR_SET_DUMPABLE, 1)
        _go_first()
        order = json.loads(text)
        setup.node = replace(setup.node, **order["met"])
        limited = _held(line, heard.readline)
        code = _run(setup, order["spec"], limited)
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        _say(line, {"type": "ended", "code": code, "memory_peak_bytes": _peak_bytes()})
        heard.readline()  # the agent's kill comes at any time now
    return code


def _run(setup: ForkSetup, spec: Message, limited: AbstractContextManager[None]) -> int:
    """Runs the attempt, its output in its log, within its memory; the exit code."""
    log = os.open(
        setup.node.root / "attempts" / spec["attempt"] / "log", os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600
    )
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    if setup.limit_memory:
        limit = _data_bytes() + spec["memory_bytes"]
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    return setup.run(AttemptSpec.from_json(spec), setup.node, limited)


@contextlib.contextmanager
def _held(line: socket.socket, go: Callable[[], bytes]) -> Iterator[None]:
    """Around the attempt's own code. OSError when the agent does not let it begin."""
    _say(line, {"type": "begin"})
    if go() != b"go\n":
        raise OSError("the agent could not limit this attempt")
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
    """What RLIMIT_DATA counts: this process's private writable memory."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmData:"):
            return int(line.split()[1]) * 1024
    raise OSError("/proc/self/status has no VmData")
