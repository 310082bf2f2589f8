"""TLS handshakes of a server's connections. The server does not see a connection before its handshake ends."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import cast

from schedbed.cluster.wire.tls import Tls
from schedbed.cluster.wire.unauthenticated_peers import UnauthenticatedPeers


class Handshake(asyncio.Protocol):
    """A connection until its TLS handshake is complete, when `make` creates the protocol that handles it.

    Meanwhile the peer is in `unauthenticated`, which disconnects slow and too many peers; asyncio's own
    handshake has no limit on their number.
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
        """Note that the peer waits no longer."""
        self._is_over = True
        self._unauthenticated.discard(self)

    def data_received(self, data: bytes) -> None:
        """Store data that arrive between the end of the handshake and the next protocol's creation."""
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
    """Return `make`, or with TLS a function that creates a `Handshake` for it."""
    if tls is None:
        return make
    context = tls.serving()
    return lambda: Handshake(make, context, unauthenticated)
