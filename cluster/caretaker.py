"""A process that cleans up after its owner if the owner dies.

The owner calls `watched` with the name of a module whose `main` waits in `await_owner` and then cleans up. The module
imports what it needs only after the wait, so that waiting costs little.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from schedbed.cluster.own_python import module_command, module_environment

DONE = b"done"


@contextmanager
def watched(module: str, *arguments: str, speaks: bool = False) -> Iterator[None]:
    """Run `module` in a helper process, which cleans up if this process dies inside the context.

    `speaks` connects the helper's standard error to that of this process. The helper has its own session and
    is not a child of this process, because Ray ends the children of a worker together with the worker.
    """
    watch = subprocess.Popen(
        [*module_command(module), *arguments],
        env=module_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=None if speaks else subprocess.DEVNULL,
        start_new_session=True,
    )
    watch.wait()  # The process forks at once, and only the forked process continues.
    try:
        yield
    finally:
        assert watch.stdin is not None
        with watch.stdin, contextlib.suppress(OSError):
            watch.stdin.write(DONE)


def await_owner() -> None:
    """Wait until the owner process ends. Return if the owner died; exit this process if it ended normally.

    Also forks once and continues in the forked process, which is no child of the owner.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if os.fork():
        os._exit(0)
    if sys.stdin.buffer.read() == DONE:
        sys.exit()
