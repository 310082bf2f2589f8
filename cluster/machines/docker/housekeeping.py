"""Preparation and cleanup of the Docker engine for a command that runs nodes in containers.

If the command is killed, `python -m schedbed.cluster.machines.docker.housekeeping` removes its objects.
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
    """Raise BadInput, with advice, if there is no usable Docker engine or no base image."""
    from schedbed.cluster.machines.docker.engine import connect, require_local
    from schedbed.cluster.machines.docker.image import base_image

    with contextlib.closing(connect()) as client:
        require_local(client)
        base_image(client)


def describe_engine() -> str:
    """Return one line that describes the Docker engine, or the reason why nodes in containers do not work."""
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
    """Build the image and remove dead processes' objects; on exit, this process's. Raises BadInput."""
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
    """Wait until the owner process has ended, then remove its Docker objects until none are left."""
    await_owner()
    from schedbed.cluster.machines.docker.engine import sweep_containers

    time.sleep(SETTLE_S)
    while sweep_containers():  # The owner's actors may outlive it and start a node again.
        time.sleep(SETTLE_S)


if __name__ == "__main__":
    main()
