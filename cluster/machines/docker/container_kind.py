"""The declaration of `docker`, the kind of machines that are Docker containers.

The client library of the Docker engine is imported on first use.
"""

from __future__ import annotations

from collections.abc import Iterator

from schedbed.cluster.agent.config import AgentConfig
from schedbed.cluster.machines.docker.housekeeping import check_engine, engine_ready
from schedbed.cluster.machines.machine import Machine, MachineImage, MachineKind


def _make(agent: AgentConfig, owner: str) -> Machine:
    from schedbed.cluster.machines.docker.container import DockerMachine

    return DockerMachine(agent, owner)


def _image_is_missing() -> bool:
    from schedbed.cluster.machines.docker.image_transfer import base_is_missing

    return base_is_missing()


def _image_pieces() -> Iterator[bytes]:
    from schedbed.cluster.machines.docker.image_transfer import saved_base

    return saved_base()


def _load_image(pieces: Iterator[bytes]) -> None:
    from schedbed.cluster.machines.docker.image_transfer import load_base

    load_base(pieces)


KIND = MachineKind(
    about="a container",
    make=_make,
    check=check_engine,
    ready=engine_ready,
    image=MachineImage(is_missing=_image_is_missing, pieces=_image_pieces, load=_load_image),
)
