"""A helper process that cleans up if its owner, which started it with `watched`, dies.

The `main` of the given module calls `await_owner` and then cleans up. It imports what it needs only then, to
keep the helper small.
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
    """Run `module` in a helper process, which cleans up if this process dies in the context.

    With `speaks` it uses this standard error. It has its own session and is no child, because Ray ends a
    worker's children with the worker.
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
    """Return when the owner has died; exit if it ended normally. The caller becomes a fork that is not its child."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if os.fork():
        os._exit(0)
    if sys.stdin.buffer.read() == DONE:
        sys.exit()
