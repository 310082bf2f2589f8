"""The declaration of `docker` machines. The engine's client library is imported on first use."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from docker.errors import DockerException, ImageNotFound

from schedbed.cluster.agent.config import AgentConfig
from schedbed.cluster.machines.docker.engine import connect, one_line
from schedbed.cluster.machines.docker.housekeeping import check_engine, engine_ready
from schedbed.cluster.machines.docker.image import BASE
from schedbed.cluster.machines.machine import Machine, MachineImage, MachineKind
from schedbed.tasks.errors import BadInput


def _make(agent: AgentConfig, owner: str) -> Machine:
    from schedbed.cluster.machines.docker.container import DockerMachine

    return DockerMachine(agent, owner)


def _run_apart(*order: Any) -> bytes:
    from schedbed.cluster.machines.docker.code_container import run_in_container

    return run_in_container(*order)


# Transfer of the base image from the Docker engine of one host to that of another, in small pieces.

PIECE_BYTES = 4 * 2**20


def base_is_missing() -> bool:
    """Return whether the Docker engine of this host lacks the base image. Raises BadInput if no engine answers."""
    with contextlib.closing(connect()) as client:
        try:
            client.images.get(BASE)
        except ImageNotFound:
            return True
    return False


def saved_base() -> Iterator[bytes]:
    """Yield the base image as of `docker save`, in pieces of at most `PIECE_BYTES` bytes."""
    with contextlib.closing(connect()) as client:
        yield from client.api.get_image(f"{BASE}:latest", chunk_size=PIECE_BYTES)


def load_base(pieces: Iterator[bytes]) -> None:
    """Load pieces of `saved_base` into this host's engine. Raises BadInput."""
    with contextlib.closing(connect()) as client:
        try:
            for _ in client.api.load_image(pieces):
                continue
            client.images.get(BASE)
        except (DockerException, OSError) as error:
            raise BadInput(
                f"--machines docker: the image {BASE} could not be loaded: {one_line(error)}"
            ) from None


KIND = MachineKind(
    about="a container",
    make=_make,
    check=check_engine,
    ready=engine_ready,
    image=MachineImage(is_missing=base_is_missing, pieces=saved_base, load=load_base),
    run_apart=_run_apart,
)
