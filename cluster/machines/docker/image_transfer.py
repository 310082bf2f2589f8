"""Transfer of the base image from the Docker engine of one host to that of another, in small pieces."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from docker.errors import DockerException, ImageNotFound

from schedbed.cluster.machines.docker.engine import connect, one_line
from schedbed.cluster.machines.docker.image import BASE
from schedbed.tasks.errors import BadInput

PIECE_BYTES = 4 * 2**20


def base_is_missing() -> bool:
    """Return whether the Docker engine of this host lacks the base image.

    Raises BadInput if no engine answers.
    """
    with contextlib.closing(connect()) as client:
        try:
            client.images.get(BASE)
        except ImageNotFound:
            return True
    return False


def saved_base() -> Iterator[bytes]:
    """Yield the base image in the format of `docker save`, in pieces of at most `PIECE_BYTES` bytes."""
    with contextlib.closing(connect()) as client:
        yield from client.api.get_image(f"{BASE}:latest", chunk_size=PIECE_BYTES)


def load_base(pieces: Iterator[bytes]) -> None:
    """Load the base image into the Docker engine of this host, from pieces made by `saved_base`.

    Raises BadInput if the engine rejects the pieces.
    """
    with contextlib.closing(connect()) as client:
        try:
            for _ in client.api.load_image(pieces):
                continue
            client.images.get(BASE)
        except (DockerException, OSError) as error:
            raise BadInput(
                f"--machines docker: the image {BASE} could not be loaded: {one_line(error)}"
            ) from None
