"""The address and token of a server: a unix socket on one host, or a TCP port between hosts."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from schedbed.cluster.wire.handshake import handshakes
from schedbed.cluster.wire.port_range import PortRange, listen_at
from schedbed.cluster.wire.tls import Tls
from schedbed.cluster.wire.unauthenticated_peers import UnauthenticatedPeers

PATH_BYTES = 100
"""Longest path of a unix socket in bytes that every system accepts."""
SILENT_S = 15
"""Seconds after which the kernel gives up a TCP peer that acknowledges nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A server's address and token: a unix socket at `path`, or else TCP. `listen` returns the port in use."""

    path: str = ""
    host: str = ""
    port: int = 0
    ports: PortRange | None = None
    token: str = field(default="", repr=False)
    tls: Tls | None = None

    @staticmethod
    def on_one_host(path: Path, host: str, token: str) -> Endpoint:
        """Return the address of a unix socket at `path`, or of TCP on `host` if the path is too long."""
        if len(str(path).encode()) <= PATH_BYTES:
            return Endpoint(path=str(path), token=token)
        return Endpoint(host=host, token=token)


async def listen(
    place: Endpoint, make: Callable[[], asyncio.Protocol], unauthenticated: UnauthenticatedPeers | None = None
) -> tuple[asyncio.Server, Endpoint]:
    """Listen at `place`. Return the server and the address for clients, with its port but no private key.

    A TLS connection is in `unauthenticated` during its handshake, so that long or many handshakes are
    disconnected. Raises OSError, or BadInput if no port is free.
    """
    loop = asyncio.get_running_loop()
    if place.path:
        server = await loop.create_unix_server(make, place.path)
        Path(place.path).chmod(0o600)
        return server, place
    make = handshakes(make, place.tls, unauthenticated or UnauthenticatedPeers(place.token))
    server = await loop.create_server(make, sock=listen_at(place.host, place.port, place.ports))
    tls = None if place.tls is None else place.tls.public()
    return server, replace(place, port=server.sockets[0].getsockname()[1], tls=tls)


async def connect(place: Endpoint, make: Callable[[], asyncio.Protocol]) -> None:
    """Connect to a server. Raises OSError, also for a certificate of another run."""
    loop = asyncio.get_running_loop()
    if place.path:
        await loop.create_unix_connection(make, place.path)
    elif place.tls is None:
        await loop.create_connection(make, place.host, place.port)
    else:
        try:
            await loop.create_connection(
                make, place.host, place.port, ssl=place.tls.connecting(), ssl_handshake_timeout=SILENT_S
            )
        except OSError as error:
            why = str(error) or type(error).__name__
            raise ConnectionError(f"{place.host}:{place.port}: no TLS of this run there: {why}") from error


def notice_silence(sock: Any) -> None:
    """Let the kernel end a TCP connection whose other host has vanished."""
    if sock.family == socket.AF_UNIX:
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, SILENT_S // 3)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, SILENT_S // 3)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 2)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, SILENT_S * 1000)
