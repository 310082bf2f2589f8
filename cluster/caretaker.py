"""A helper process that cleans up after its owner (the process that started it) if the owner dies.

The owner calls `watched` with the name of a module. The module's `main` calls `await_owner`, which waits
until the owner ends, and then cleans up. The module imports what it needs only after the wait, to keep the
helper small.
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
    """Run `module` in a helper process, which cleans up if this process dies while the context is open.

    `arguments` are the helper's command line arguments. With `speaks`, the helper writes to this process's
    standard error. The helper has its own session and is not a child of this process, because Ray ends the
    children of a worker together with the worker.
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
    """Wait until the owner process ends.

    Return if the owner died; exit this process if the owner ended normally. To wait, the function forks this
    process: the original exits, and the forked process, which is no longer a child of the owner, goes on.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if os.fork():
        os._exit(0)
    if sys.stdin.buffer.read() == DONE:
        sys.exit()
