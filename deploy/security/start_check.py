"""Checks at the start of a run that none of its listening sockets is open to strangers.

Listeners must have addresses that are loopback or requested by the user, and Ray must require a token.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from urllib.parse import urlsplit

from schedbed.deploy.failures import RunFailed
from schedbed.deploy.security.listeners import Listener, addresses_of
from schedbed.deploy.security.strange_calls import REFUSES, ray_refuses


def check_listeners(found: Iterable[Listener], asked_for: Collection[str] = ()) -> None:
    """Raise RunFailed if a listener has an address that is neither loopback nor requested by the user.

    `asked_for` are the requested host names or addresses.
    """
    addresses = {address for name in asked_for for address in addresses_of(name)}
    for listener in found:
        if not listener.is_loopback and listener.address not in addresses:
            expected = f"127.0.0.1 or {', '.join(sorted(asked_for))}" if asked_for else "127.0.0.1"
            raise RunFailed(f"{listener} listens where others reach it, expected {expected} only")


def without_guarded_ray(found: Iterable[Listener]) -> list[Listener]:
    """Return the listeners without those that belong to Ray and refuse calls without a token.

    Ray chooses its addresses itself. On a cluster of several hosts its workers listen on all interfaces.
    Listeners on loopback are always returned.
    """
    return [listener for listener in found if listener.is_loopback or not _is_guarded_ray(listener)]


def check_ray(gcs: str) -> None:
    """Raise RunFailed if the Ray server (GCS) at `gcs` does not answer or accepts calls without a token."""
    host, _, port = gcs.rpartition(":")
    listener = Listener(host.strip("[]"), int(port), "Ray's GCS", 0)
    try:
        answer = ray_refuses(listener)
    except OSError as error:
        raise RunFailed(f"Ray's GCS at {gcs} does not answer: {error.strerror or error}") from None
    if answer != REFUSES:
        raise RunFailed(
            f"Ray's GCS at {gcs} takes calls without a token, expected a Ray that was started with RAY_AUTH_MODE=token"
        )


def ports_of(agents: Mapping[str, str]) -> dict[int, str]:
    """Return a dictionary from TCP port to the name of the node's agent that uses the port.

    `agents` is a dictionary from node name to the URL of the node's agent.
    """
    return {urlsplit(url).port or 0: f"agent {node}" for node, url in agents.items()}


def _is_guarded_ray(listener: Listener) -> bool:
    try:
        return ray_refuses(listener) == REFUSES
    except OSError:
        return False
