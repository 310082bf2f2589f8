"""The Docker engine: how to connect to it, and how a run's objects are labeled and removed.

Labels name run, user, host and process (`owner_mark`), so that a dead process's objects can be found and no
others are touched.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import docker
from docker.errors import APIError, DockerException, NotFound

from schedbed.cluster.agent.cgroups import owner_lives, owner_mark
from schedbed.cluster.machines.docker.loop_device import DEVICE, discard
from schedbed.cluster.machines.host_abilities import docker_why
from schedbed.tasks.errors import BadInput

RUN, OWNER, HOST, USER = "schedbed.run", "schedbed.owner", "schedbed.host", "schedbed.user"
CALL_S = 120  # An engine that starts fifty containers answers slowly.

Labels = dict[str, str]


def connect() -> docker.DockerClient:
    """Return a client of the engine at DOCKER_HOST or the default socket. Raises BadInput with advice."""
    if why := docker_why():
        raise BadInput(f"--machines docker: no engine to use: {why}; {_advice(why)}")
    try:
        return docker.from_env(timeout=CALL_S)
    except (DockerException, OSError) as error:
        raise BadInput(f"--machines docker: no engine to use: {one_line(error)}; {_advice('')}") from None


def require_local(client: docker.DockerClient) -> None:
    """Raise BadInput if the Docker engine runs in a separate virtual machine (Docker Desktop)."""
    if client.info().get("OperatingSystem") == "Docker Desktop":
        raise BadInput(
            "--machines docker: Docker Desktop keeps containers in a virtual machine whose networks cannot be reached "
            "from here; expected an engine on this Linux host"
        )


def _advice(why: str) -> str:
    if "ermission denied" in why:
        return "let yourself use it: sudo usermod -aG docker $USER, then log in again"
    return "start Docker on this host (DOCKER_HOST names another socket), or use --machines process"


def one_line(error: Exception) -> str:
    """Return an engine's error in one line, without the client library's text."""
    text = getattr(error, "explanation", None) or str(error)
    return " ".join(str(text).split())


def labels(run_id: str, owner: str) -> Labels:
    """Return the labels of a run's objects. `owner` is an `owner_mark`."""
    return {RUN: run_id, OWNER: owner, HOST: socket.gethostname(), USER: str(os.getuid())}


def run_name(run_id: str) -> str:
    """Return a run's network name, with which its containers' names begin."""
    return run_id if run_id.startswith("schedbed-") else f"schedbed-{run_id}"


def sweep_containers(all: bool = False) -> list[str]:
    """Remove this user's objects of dead processes here, or with `all` everyone of theirs. Return the names."""
    host, user = socket.gethostname(), str(os.getuid())
    return remove_labelled(
        lambda found: (
            found.get(USER) == user
            and (all or (found.get(HOST) == host and not owner_lives(found.get(OWNER, ""))))
        )
    )


def remove_owned() -> list[str]:
    """Remove this process's objects. Return their names."""
    host, me = socket.gethostname(), owner_mark()
    return remove_labelled(lambda found: found.get(HOST) == host and found.get(OWNER) == me)


def remove_labelled(doomed: Callable[[Mapping[str, str]], bool]) -> list[str]:
    """Remove objects with `doomed` labels. Return their names, none if no engine answers."""
    if docker_why():
        return []
    with contextlib.closing(connect()) as client:
        return _remove(client.api, doomed)


def _remove(api: Any, doomed: Callable[[Mapping[str, str]], bool]) -> list[str]:
    """Remove objects with `doomed` labels and their loop devices, containers first as they use the rest."""
    removed = []
    for kind, name, mine in list(_labelled(api)):
        if doomed(mine):
            with contextlib.suppress(APIError):  # The object is removed already, or is being removed.
                _REMOVE[kind](api, name)
                if device := mine.get(DEVICE):
                    discard(device)
                removed.append(f"{kind} {name}")
    return removed


def _labelled(api: Any) -> Iterator[tuple[str, str, Mapping[str, str]]]:
    """Yield the kind, name and labels of each Docker object that has a label of schedbed."""
    only = {"label": RUN}
    for found in api.containers(all=True, filters=only):
        yield "container", found["Names"][0].lstrip("/") if found["Names"] else found["Id"], found["Labels"]
    for found in api.networks(filters=only):
        yield "network", found["Name"], found["Labels"] or {}
    for found in api.volumes(filters=only)["Volumes"] or ():
        yield "volume", found["Name"], found["Labels"] or {}


def remove_container(api: Any, name: str) -> None:
    """Kill and remove a container, and wait until it is gone. Do nothing if the container does not exist."""
    try:
        api.remove_container(name, force=True, v=True)
    except NotFound:
        return
    except APIError as error:
        if error.status_code != 409:  # 409: the container is being removed.
            raise
    with contextlib.suppress(APIError, OSError):  # The container is gone, or the engine is slow.
        api.wait(name, timeout=30, condition="removed")


_REMOVE: dict[str, Callable[[Any, str], None]] = {
    "container": remove_container,
    "network": lambda api, name: api.remove_network(name),
    "volume": lambda api, name: api.remove_volume(name),
}
