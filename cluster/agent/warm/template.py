"""A process that has imported what agents and zygotes need, and from which the agents of a host are forked.

`python -m schedbed.cluster.agent.warm.template FD`: single-threaded, driven by the messages below on that socket, one
answer each. A fork shares the imported modules (copy on write) and takes some milliseconds; a new interpreter that
imports them takes half a second of CPU time. An ended agent stays a zombie until its exit status has been requested,
so that its pid is not reused before. The template ends when the socket closes; agents have their own standard input.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import socket
import sys
import traceback

from schedbed.cluster.agent import agent
from schedbed.cluster.agent.config import RUNNER
from schedbed.cluster.agent.warm import privileges, zygote
from schedbed.cluster.agent.warm.fork import OPEN_MAX
from schedbed.cluster.agent.warm.zygote_link import ZygoteLink

FORK, POLL, REAP = b"fork", b"poll", b"reap"
"""`fork` comes with the agent's standard input, output and log; the answer is its id. `poll ID` and `reap ID` are
answered by the exit code, below 0 for a signal; `poll` by `alive` while there is none, `reap` waits for it."""
ALIVE = b"alive"
LOST = -signal.SIGKILL
"""In place of an exit code that nobody knows."""
MESSAGE_BYTES = 64


def serve(line: socket.socket) -> int | None:
    """Serve until the socket closes. Return the exit code of an agent in each fork, None in the template."""
    while True:
        message, descriptors, _, _ = socket.recv_fds(line, MESSAGE_BYTES, 3)
        if not message:
            return None
        kind, _, pid = message.partition(b" ")
        if kind != FORK:
            line.send(_status(int(pid), os.WNOHANG | os.WNOWAIT if kind == POLL else 0))
            continue
        sys.stderr.flush()
        waits, begun = os.pipe()
        forked = os.fork()
        if not forked:
            os.setsid()
            os.close(begun)
            line.close()
            return _live(descriptors)
        os.close(begun)
        os.read(
            waits, 1
        )  # until the fork has its session, so that its id is a group's id when it is reported
        os.close(waits)
        for descriptor in descriptors:
            os.close(descriptor)
        line.send(str(forked).encode())


def _status(pid: int, options: int) -> bytes:
    try:
        ended = os.waitid(os.P_PID, pid, os.WEXITED | options)
    except ChildProcessError:
        return str(LOST).encode()
    if ended is None:
        return ALIVE
    return str(ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status).encode()


def _live(descriptors: list[int]) -> int:
    """Run an agent with these standard streams and no other descriptor. Return the exit code."""
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
    os.closerange(3, OPEN_MAX)
    sys.stdin, sys.stdout = os.fdopen(0), os.fdopen(1, "w")
    gc.enable()
    return agent.main(ZygoteLink.fork)


def main() -> int:
    """Import the applications, then serve; see the module docstring."""
    gc.disable()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that holds the socket
    privileges.prctl(privileges.PR_SET_DUMPABLE, 0)  # attempts that are the same user must not trace it
    zygote.load(RUNNER)
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=int(sys.argv[1])) as line:
        code = serve(line)
    return 0 if code is None else code


if __name__ == "__main__":
    code = 1
    try:
        code = main()
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)
