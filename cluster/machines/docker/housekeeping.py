"""The engine around a whole command: image built, leftovers swept before and after, and a watch in case it is killed.

`python -m schedbed.cluster.machines.docker.housekeeping` is the watch: it waits for its standard input to end, then
removes what dead owners have left.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from schedbed.cluster.own_python import module_command, module_environment
from schedbed.tasks.errors import BadInput

DONE = b"done"
SETTLE_S = 2.0


def check_engine() -> None:
    """Raises BadInput saying what to do when there is no engine that can be used, or no base image."""
    from schedbed.cluster.machines.docker.engine import connect, require_local
    from schedbed.cluster.machines.docker.image import base_image

    with contextlib.closing(connect()) as client:
        require_local(client)
        base_image(client)


def describe_engine() -> str:
    """In a line: which engine answers, and whether container nodes can be had of it."""
    from schedbed.cluster.machines.docker.engine import connect

    try:
        with contextlib.closing(connect()) as client:
            found = client.info()
        check_engine()
    except BadInput as error:
        return str(error)
    limits = f"cgroup v{found.get('CgroupVersion', '1')}, {found.get('Driver')}"
    return f"{found.get('ServerVersion')} ({limits}), base image is there: --machines docker works"


@contextmanager
def engine_ready() -> Iterator[None]:
    """Builds the nodes' image; afterwards nothing of this process is left at the engine. Raises BadInput."""
    from schedbed.cluster.machines.docker.engine import connect, remove_owned, sweep_containers
    from schedbed.cluster.machines.docker.image import node_image

    with contextlib.closing(connect()) as client:
        node_image(client)
    sweep_containers()
    with _watched():
        try:
            yield
        finally:
            remove_owned()


@contextmanager
def _watched() -> Iterator[None]:
    """A process of its own session that outlives this one, if need be, to clean up after it; no child of this one,
    since Ray ends the children of its workers with them."""
    watch = subprocess.Popen(
        module_command("schedbed.cluster.machines.docker.housekeeping"),
        env=module_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    watch.wait()  # its child goes on
    try:
        yield
    finally:
        assert watch.stdin is not None
        with watch.stdin, contextlib.suppress(OSError):
            watch.stdin.write(DONE)


def main() -> None:
    """Waits for the owner's end; the engine's client is imported only then, so that waiting costs little."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if os.fork():
        os._exit(0)
    if sys.stdin.buffer.read() == DONE:
        return
    from schedbed.cluster.machines.docker.engine import sweep_containers

    time.sleep(SETTLE_S)
    while sweep_containers():  # the owner's actors may live a little longer and start a node again
        time.sleep(SETTLE_S)


if __name__ == "__main__":
    main()
