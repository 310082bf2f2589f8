"""The template: a process that has imported all modules, and from which the agents of a host are forked.

It answers messages on the socket FD, with a single thread, until the socket closes; agents live on. A fork
takes milliseconds, a new interpreter half a second of CPU time. An ended agent stays a zombie until its exit
status is requested, so its pid is not reused before.
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
from schedbed.cluster.agent.warm import fork, zygote
from schedbed.cluster.agent.warm.fork import OPEN_MAX
from schedbed.cluster.agent.warm.zygote_link import ZygoteLink

FORK, POLL, REAP = b"fork", b"poll", b"reap"
"""The messages. `fork` comes with the descriptors of the agent's standard input, output and log; the answer is
the agent's pid. The answer to `poll PID` and `reap PID` is the agent's exit code, negative for a signal. While the
agent is running, the answer to `poll` is `alive`, and `reap` waits."""
ALIVE = b"alive"
LOST = -signal.SIGKILL
"""The exit code of an agent whose real exit code is unknown."""
MESSAGE_BYTES = 64


def serve(line: socket.socket) -> int | None:
    """Process messages until the socket closes. Return None, or in a forked agent its exit code."""
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
        )  # Wait until the fork has its own session: its pid is then also a process group's id.
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
    """Run an agent in this forked process on three standard descriptors. Return the exit code."""
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
    os.closerange(3, OPEN_MAX)
    sys.stdin, sys.stdout = os.fdopen(0), os.fdopen(1, "w")
    gc.enable()
    return agent.main(ZygoteLink.fork)


def main() -> int:
    """Import the applications, then serve the socket given as the first argument."""
    gc.disable()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # The process that holds the socket handles Ctrl-C.
    fork.prctl(fork.PR_SET_DUMPABLE, 0)  # Attempts of the same user must not trace this process.
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
