"""What a fork of the zygote does: leaves the zygote's things behind, joins its slot, runs its attempt."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import resource
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from schedbed.tasks.context import NodeContext
from schedbed.tasks.specs import AttemptSpec

Message = dict[str, Any]
Run = Callable[[AttemptSpec, NodeContext, AbstractContextManager[None]], int]
"""Runs an attempt, its own code inside the context that limits it; returns the exit code."""

THREAD_STACK_BYTES = 512 * 1024  # stacks count against an attempt's memory
PR_SET_PDEATHSIG = 1
OPEN_MAX = 1 << 20
EXIT_SETUP = 70  # an attempt that did not get as far as its first line
MET = ("peers", "racks", "epoch_s")  # what a node learns of its run after its zygote was set up
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(slots=True)
class ForkSetup:
    """What every fork needs: the runner, the node (peers may change) and whether memory is limited."""

    run: Run
    node: NodeContext
    limit_memory: bool


def become_attempt(parent: int, keep: int) -> None:
    """A session of its own, death with the zygote, none of the zygote's descriptors or signal handlers."""
    os.setsid()
    _libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(
            "1000"
        )  # where memory ends, an attempt goes, not the agent
    if os.getppid() != parent:
        os._exit(EXIT_SETUP)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.closerange(3, keep)
    os.closerange(max(3, keep + 1), OPEN_MAX)
    threading.stack_size(THREAD_STACK_BYTES)
    gc.enable()


def wait_and_run(setup: ForkSetup, procs: tuple[str, ...], line: socket.socket) -> int:
    """A spare's life: moves to its slot, waits for its attempt; a closed line means that none will come."""
    for path in procs:
        Path(path).write_text("0")
    with line, line.makefile("rb") as orders:
        text = orders.read()
    if not text:
        return 0
    order = json.loads(text)
    setup.node = replace(setup.node, **{name: order[name] for name in MET})
    return run(setup, order["spec"], (), order["gate"])


def run(setup: ForkSetup, spec: Message, procs: tuple[str, ...], gate: Sequence[str] | None) -> int:
    """Runs the attempt in these groups, its output in its log, within its memory; the exit code."""
    log = os.open(
        setup.node.root / "attempts" / spec["attempt"] / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600
    )
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    for path in procs:
        Path(path).write_text("0")
    if setup.limit_memory:
        limit = _data_bytes() + spec["memory_bytes"]
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    limited = _through(*gate) if gate else contextlib.nullcontext()
    return setup.run(AttemptSpec.from_json(spec), setup.node, limited)


@contextlib.contextmanager
def _through(path: str, held: str, free: str) -> Iterator[None]:
    """Holds the slot's CPU quota for as long as the attempt's own code runs. OSError when it does not take."""
    file = Path(path)
    file.write_text(held)
    if (taken := file.read_text().strip()) != held:
        raise OSError(f"{path} is {taken} after {held} was written")
    try:
        yield
    finally:
        file.write_text(free)


def _data_bytes() -> int:
    """What RLIMIT_DATA counts: this process's private writable memory."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmData:"):
            return int(line.split()[1]) * 1024
    raise OSError("/proc/self/status has no VmData")
