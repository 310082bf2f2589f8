"""TLS handshakes of a server's connections.

The server does not see a connection before its handshake ends.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import cast

from schedbed.cluster.wire.tls import Tls
from schedbed.cluster.wire.unauthenticated_peers import UnauthenticatedPeers


class Handshake(asyncio.Protocol):
    """The protocol of a connection until its TLS handshake is complete.

    After the handshake, `make` creates the protocol that handles the connection. During the handshake, the
    peer is in `unauthenticated`, the set of peers that have not sent the token. This set disconnects peers
    that take too long, and the longest waiting peer if there are too many. The handshake of asyncio itself
    has no such limit on the number of peers.
    """

    def __init__(
        self,
        make: Callable[[], asyncio.Protocol],
        context: ssl.SSLContext,
        unauthenticated: UnauthenticatedPeers,
    ) -> None:
        self._make = make
        self._context = context
        self._unauthenticated = unauthenticated
        self._held = bytearray()
        self._is_over = False
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Implement `asyncio.Protocol`: start the TLS handshake."""
        raw = cast(asyncio.Transport, transport)
        raw.pause_reading()  # The handshake must read the peer's first bytes.
        self._unauthenticated.add(self, raw.abort)
        self._task = asyncio.create_task(self._shake(raw))

    def connection_lost(self, exc: Exception | None) -> None:
        """Implement `asyncio.Protocol`: remove the peer from the peers that have not sent the token."""
        self._is_over = True
        self._unauthenticated.discard(self)

    def data_received(self, data: bytes) -> None:
        """Implement `asyncio.Protocol`: store data for the protocol that handles the connection later.

        Data can arrive between the end of the handshake and the creation of that protocol.
        """
        self._held += data

    async def _shake(self, raw: asyncio.Transport) -> None:
        try:
            secure = await asyncio.get_running_loop().start_tls(raw, self, self._context, server_side=True)
        except OSError:  # no TLS, or the peer has gone: strangers get no answer and no line in the log
            secure = None
        self._unauthenticated.discard(self)
        if secure is None or self._is_over:
            raw.abort()
            return
        protocol = self._make()
        secure.set_protocol(protocol)
        protocol.connection_made(secure)
        if self._held:
            protocol.data_received(bytes(self._held))


def handshakes(
    make: Callable[[], asyncio.Protocol], tls: Tls | None, unauthenticated: UnauthenticatedPeers
) -> Callable[[], asyncio.Protocol]:
    """Return a function that creates the protocol of a connection.

    Without TLS, the function is `make`. With TLS, it creates a `Handshake`, which calls `make` after the TLS
    handshake. `unauthenticated` are the peers that have not sent the token.
    """
    if tls is None:
        return make
    context = tls.serving()
    return lambda: Handshake(make, context, unauthenticated)
