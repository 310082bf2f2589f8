"""The Docker image of nodes: the packages `cluster` and `tasks` on top of the base image."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import tarfile
from pathlib import Path
from typing import Any

import docker
from docker.errors import APIError, BuildError, ImageNotFound

import schedbed
from schedbed.cluster.machines.docker.engine import one_line
from schedbed.tasks.errors import BadInput

BASE = "schedbed-base"
NODE = "schedbed-node"
LABEL = "schedbed.image"
DOCKERFILE = f"""FROM {BASE}
COPY schedbed /app/schedbed
RUN python3 -m compileall -q /app
LABEL {LABEL}=node
"""


def base_image(client: docker.DockerClient) -> str:
    """Return the id of the base image. Raises BadInput if the image does not exist."""
    try:
        return str(client.images.get(BASE).id)
    except ImageNotFound:
        raise BadInput(
            f"--machines docker: there is no image {BASE}; build it once: deploy/image/build"
        ) from None


def node_image(client: docker.DockerClient) -> str:
    """Return the tag of the current sources' image, built if missing; older ones go. Raises BadInput."""
    sources, base = _sources(), base_image(client)
    tag = f"{NODE}:{_hash(sources, base)}"
    with contextlib.suppress(ImageNotFound):
        client.images.get(tag)
        return tag
    try:
        client.images.build(fileobj=_context(sources), custom_context=True, encoding="gzip", tag=tag, rm=True)
    except (BuildError, APIError) as error:
        raise BadInput(
            f"--machines docker: the image {tag} could not be built: {one_line(error)}; "
            "expected a whole base image: deploy/image/build --force"
        ) from None
    _remove_older(client, tag)
    return tag


def _sources() -> dict[str, bytes]:
    """Return {place in the image: content} of the packages `cluster` and `tasks`."""
    package = Path(schedbed.__file__).parent
    found = {"schedbed/__init__.py": (package / "__init__.py").read_bytes()}
    for room in ("cluster", "tasks"):
        top = (package / room).resolve()
        for path in sorted(top.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                found[f"schedbed/{room}/{path.relative_to(top)}"] = path.read_bytes()
    return found


def _hash(sources: dict[str, bytes], base: str) -> str:
    digest = hashlib.sha256(f"{base}\n{DOCKERFILE}".encode())
    for name, data in sources.items():
        digest.update(f"{name} {len(data)}\n".encode() + data)
    return digest.hexdigest()[:12]


def _context(sources: dict[str, bytes]) -> io.BytesIO:
    """Return a compressed tar file of the sources and the Dockerfile, from which Docker builds the image."""
    made = io.BytesIO()
    with gzip.open(made, "wb", compresslevel=1) as zipped, tarfile.open(fileobj=zipped, mode="w") as tar:
        for name, data in {"Dockerfile": DOCKERFILE.encode(), **sources}.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            member.mode = 0o644
            tar.addfile(member, io.BytesIO(data))
    made.seek(0)
    return made


def _remove_older(client: docker.DockerClient, tag: str) -> None:
    """Remove all node images except the one with the given tag and those that a container uses."""
    images: list[Any] = client.images.list(name=NODE)
    for image in images:
        for old in image.tags:
            if old != tag:
                with contextlib.suppress(APIError):
                    client.images.remove(old)
