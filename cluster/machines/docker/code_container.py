"""Runs a user's code for the driver in a container beside a run's nodes: their image, and no network at all."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

from docker.errors import DockerException
from docker.types import Mount

from schedbed.cluster.agent.cgroups import owner_mark
from schedbed.cluster.machines.docker.container import PIDS, USER, Streams
from schedbed.cluster.machines.docker.engine import connect, labels, one_line, remove_container, run_name
from schedbed.cluster.machines.docker.image import node_image
from schedbed.tasks.errors import BadInput
from schedbed.tasks.units import format_duration

MEMORY_BYTES = 2 * 2**30
ANSWER = 'exec python3 -m "$0" 3 3>&1 >/dev/null 2>&1'
"""The shell command that gives a module its standard output for the answer only."""


def run_in_container(run_id: str, module: str, request: bytes, folder: Path, limit_s: float) -> bytes:
    """Run a module of `tasks` on a request, and return its answer. The module may read `folder`. Raises BadInput."""
    name = f"{run_name(run_id)}-code-{secrets.token_hex(4)}"
    with contextlib.closing(connect()) as client:
        api = client.api
        try:
            api.create_container(
                node_image(client),
                ["sh", "-c", ANSWER, module],
                name=name,
                user=USER,
                stdin_open=True,
                labels=labels(run_id, owner_mark()),
                host_config=api.create_host_config(
                    read_only=True,
                    tmpfs={"/tmp": "rw,nosuid,nodev,size=256m"},
                    cap_drop=["ALL"],
                    security_opt=["no-new-privileges"],
                    pids_limit=PIDS,
                    mem_limit=MEMORY_BYTES,
                    memswap_limit=MEMORY_BYTES,
                    mounts=[Mount(str(folder), str(folder), type="bind", read_only=True)],
                    network_mode="none",
                    log_config={"Type": "none"},
                ),
            )
            streams = Streams(api, name, Path(os.devnull))
            api.start(name)
            streams.send(request.decode())
            streams.close_input()
            answer = streams.first(limit_s)
            late = not answer and not streams.ended.is_set()
            remove_container(api, name)
            streams.close()
        except DockerException as error:
            raise BadInput(f"its container failed: {one_line(error)}") from None
        finally:
            with contextlib.suppress(DockerException):
                remove_container(api, name)
    if late:
        raise BadInput(f"it did not end within {format_duration(limit_s)}")
    return answer
