"""The Docker engine around a command: the image is built, leftovers are removed before and after, and also if the
command is killed.

`python -m schedbed.cluster.machines.docker.housekeeping` is the process that removes leftovers of dead owners.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from contextlib import contextmanager

from schedbed.cluster.caretaker import await_owner, watched
from schedbed.tasks.errors import BadInput

SETTLE_S = 2.0


def check_engine() -> None:
    """Raise BadInput that says what to do if there is no usable engine or no base image."""
    from schedbed.cluster.machines.docker.engine import connect, require_local
    from schedbed.cluster.machines.docker.image import base_image

    with contextlib.closing(connect()) as client:
        require_local(client)
        base_image(client)


def describe_engine() -> str:
    """Return a line about the engine, and whether container nodes work with it."""
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
    """Build the nodes' image; at the end remove everything that this process made at the engine. Raises BadInput."""
    from schedbed.cluster.machines.docker.engine import connect, remove_owned, sweep_containers
    from schedbed.cluster.machines.docker.image import node_image

    with contextlib.closing(connect()) as client:
        node_image(client)
    sweep_containers()
    with watched("schedbed.cluster.machines.docker.housekeeping"):
        try:
            yield
        finally:
            remove_owned()


def main() -> None:
    """Clean up after the owner has died."""
    await_owner()
    from schedbed.cluster.machines.docker.engine import sweep_containers

    time.sleep(SETTLE_S)
    while sweep_containers():  # the owner's actors may live a little longer and start a node again
        time.sleep(SETTLE_S)


if __name__ == "__main__":
    main()
