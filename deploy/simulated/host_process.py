"""Processes that simulate on a host of a Ray cluster: one request as input, one answer as output.

Ray's workers must not fork, as simulations of users' policies do. A worker therefore starts another process,
which ends together with the worker.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import NoReturn

from schedbed.cluster.own_python import module_command, module_environment
from schedbed.deploy.worker_fork import PR_SET_PDEATHSIG
from schedbed.deploy.workspace import base_folder, sweep

ENDED = 128 + signal.SIGTERM


def ask(module: str, request: bytes) -> bytes:
    """Run a module of schedbed that calls `serve` in a new process. Return its answer to the request.

    Raises RuntimeError, with the last line of the process's error output, if the process fails.
    """
    done = subprocess.run(
        [*module_command(module), str(os.getpid())],
        input=request,
        capture_output=True,
        check=False,
        env=module_environment(),
    )
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or ["it printed nothing"]
        raise RuntimeError(f"its process ended with code {done.returncode}: {lines[-1]}")
    return done.stdout


def serve(answer: Callable[[bytes], bytes]) -> NoReturn:
    """Read a request from standard input, write the result of `answer` to standard output, and exit.

    Other output goes to standard error. A forked process does this, since Ray kills the children of a worker
    in a way that leaves no time to remove temporary folders, but not their children. The forked process ends
    when its parent has ended, which ends when the worker has ended. The first argument of the command is the
    worker's process id. Temporary folders of dead processes are removed first.
    """
    _end_with(int(sys.argv[1]))
    parent = os.getpid()
    if child := os.fork():
        _, status = os.waitpid(child, 0)
        os._exit(os.waitstatus_to_exitcode(status) % 256)
    os.setpgid(0, 0)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(ENDED))
    _end_with(parent)
    with os.fdopen(os.dup(1), "wb") as out:
        os.dup2(2, 1)
        sweep(base_folder())
        out.write(answer(sys.stdin.buffer.read()))
    sys.exit()


def _end_with(parent: int) -> None:
    """Let the kernel send SIGTERM to this process when its parent process, whose id is `parent`, ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        sys.exit(ENDED)
