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


def serve(answer: Callable[[bytes], bytes]) -> None:
    """Read a request from standard input, and write the result of `answer` to standard output.

    Other output of this process goes to standard error. The process ends when its parent process, whose id is
    the first argument of the command, has ended. Temporary folders of dead processes are removed first.
    """
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(ENDED))
    if os.getppid() != int(sys.argv[1]):
        sys.exit(ENDED)
    with os.fdopen(os.dup(1), "wb") as out:
        os.dup2(2, 1)
        sweep(base_folder())
        out.write(answer(sys.stdin.buffer.read()))
