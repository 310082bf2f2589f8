"""The transfer of a machine image, such as a Docker image, from the command's host to other hosts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from schedbed.cluster.machines.make import KINDS

Wait = Callable[[list[Any]], Sequence[Any]]


def send_image(machines: str, keepers: Mapping[str, Any], wait: Wait) -> list[str]:
    """Send the image for the kind of machines `machines`, such as `docker`, to the hosts that do not have it.

    Return the names of these hosts. `keepers` maps host names to `HostKeeper` actors, and `wait` returns the
    results of calls of actors. The image is sent in pieces. Each piece is sent when all hosts have loaded
    the previous one, so that no host holds more than a few pieces in memory. Raises BadInput if a container
    engine refuses the image.
    """
    image = KINDS[machines]().image
    if image is None or not keepers:
        return []
    answers = wait([keeper.lacks_image.remote(machines) for keeper in keepers.values()])
    lacking = [name for name, lacks in zip(keepers, answers, strict=True) if lacks]
    if lacking:
        print(f"sending the image of {machines} machines to {', '.join(lacking)}", flush=True)
        for piece in image.pieces():
            wait([keepers[name].take_image_piece.remote(machines, piece) for name in lacking])
        wait([keepers[name].end_image.remote() for name in lacking])
    return lacking
