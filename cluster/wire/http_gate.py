"""Token checks for HTTP servers. A server sees a connection only after a first request with the token."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from aiohttp import web

from schedbed.cluster.wire.handshake import handshakes
from schedbed.cluster.wire.tls import Tls, scheme_of
from schedbed.cluster.wire.unauthenticated_peers import UnauthenticatedPeers

if TYPE_CHECKING:
    from aiohttp.typedefs import Handler, Middleware  # older versions have only one of the two names

HEAD_BYTES = 32 * 2**10
"""Longest head of a first request in bytes; aiohttp accepts lines of 8 KiB."""
HEAD_END = b"\r\n\r\n"
SCHEME = b"Bearer "
TLS_HELLO = 0x16
"""First byte of a client that expects TLS, which no HTTP method has. Such a client is refused at once."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The response (status 401) to a request without the token: its body, and the type of the body."""

    content_type: str
    body: bytes

    def response(self) -> web.Response:
        """Return the 401 response as an aiohttp response that closes the connection."""
        response = web.Response(status=401, body=self.body, content_type=self.content_type)
        response.force_close()
        return response

    def raw(self) -> bytes:
        """Return the 401 response as the bytes to send over the connection."""
        head = (
            f"HTTP/1.1 401 Unauthorized\r\nContent-Type: {self.content_type}\r\n"
            f"Content-Length: {len(self.body)}\r\nConnection: close\r\n\r\n"
        )
        return head.encode() + self.body


class HttpGate:
    """The token check of one HTTP server. A request without the token receives only `refusal` (401).

    The token is in the header `Authorization: Bearer`, or in the query's `parameter`, whose value `unwrap`
    converts to the token. `others(text)` returns whether a text is another valid token.
    """

    def __init__(
        self,
        token: str,
        refusal: Refusal,
        *,
        parameter: str = "",
        unwrap: Callable[[bytes], bytes] | None = None,
        unauthenticated: UnauthenticatedPeers | None = None,
        others: Callable[[bytes], bool] | None = None,
    ) -> None:
        self.refusal = refusal
        self.unauthenticated = UnauthenticatedPeers(token) if unauthenticated is None else unauthenticated
        self._parameter = parameter.encode()
        self._unwrap = unwrap
        self._others = others

    def middleware(self) -> Middleware:
        """Return the middleware that checks every request's token. An application must list it first."""

        @web.middleware
        async def admit(request: web.Request, handler: Handler) -> web.StreamResponse:
            target = request.raw_path.encode(errors="surrogatepass")
            if self.is_open_to(target, request.raw_headers):
                return await handler(request)
            return self.refusal.response()

        return admit

    def is_open_to(self, target: bytes, fields: Any) -> bool:
        """Return whether a request has the token in its path with query, or its (name, value) headers."""
        if self._parameter:
            pairs = (pair.partition(b"=") for pair in target.partition(b"?")[2].split(b"&"))
            given = next((value for name, _, value in pairs if name == self._parameter), b"")
            if given:
                return self._admits(given) or (
                    self._unwrap is not None and self.unauthenticated.is_token(self._unwrap(given))
                )
        shown = next((value.strip() for name, value in fields if name.lower() == b"authorization"), b"")
        return shown.startswith(SCHEME) and self._admits(shown[len(SCHEME) :])

    def _admits(self, shown: bytes) -> bool:
        return self.unauthenticated.is_token(shown) or (self._others is not None and self._others(shown))

    async def serve(
        self, app: web.Application, listening: socket.socket, *, tls: Tls | None = None, **options: Any
    ) -> web.AppRunner:
        """Serve `app` behind the token check. Return its runner, whose `cleanup` ends the server."""
        runner = web.AppRunner(app, access_log=None, **options)
        await runner.setup()
        await _GatedSite(runner, self, listening, tls).start()
        return runner


class _GatedSite(web.BaseSite):
    """A site like `aiohttp.web.SockSite`, but a connection must first pass the token check `gate`."""

    def __init__(
        self, runner: web.AppRunner, gate: HttpGate, listening: socket.socket, tls: Tls | None
    ) -> None:
        super().__init__(runner)
        self._gate = gate
        self._tls = tls
        self._listening = listening

    @property
    def name(self) -> str:
        """Return the URL of the site."""
        return "{}://{}:{}".format(scheme_of(self._tls), *self._listening.getsockname()[:2])

    async def start(self) -> None:
        """Start to listen, with a token check and with TLS if set. Implements `aiohttp.web.BaseSite`."""
        await super().start()
        server = cast(web.Server, self._runner.server)
        loop = asyncio.get_running_loop()
        make = handshakes(lambda: _Caller(self._gate, server), self._tls, self._gate.unauthenticated)
        self._server = await loop.create_server(make, sock=self._listening)

    async def stop(self) -> None:
        """Stop the site, and disconnect the peers that have not sent the token. Implements `aiohttp.web.BaseSite`."""
        await super().stop()
        self._gate.unauthenticated.drop_all()


class _Caller(asyncio.Protocol):
    """A connection until its first request with the token, after which `server` handles it."""

    def __init__(self, gate: HttpGate, server: web.Server) -> None:
        self._gate = gate
        self._server = server
        self._held = bytearray()
        self._refused = False
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._gate.unauthenticated.add(self, self._transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self._gate.unauthenticated.discard(self)

    def data_received(self, data: bytes) -> None:
        """Check the first request's headers. After a refusal, discard data so that the client can read it."""
        if self._refused:
            return
        looked_at = max(0, len(self._held) - len(HEAD_END) + 1)
        self._held += data
        end = self._held.find(HEAD_END, looked_at, HEAD_BYTES)
        if end < 0:
            if len(self._held) >= HEAD_BYTES or self._held[0] == TLS_HELLO:
                self._refuse()
        elif self._shows_token(bytes(self._held[:end])):
            self._hand_over()
        else:
            self._refuse()

    def _shows_token(self, head: bytes) -> bool:
        request, *lines = head.split(b"\r\n")
        fields = [(name, value) for name, _, value in (line.partition(b":") for line in lines)]
        words = request.split(b" ")
        return len(words) == 3 and self._gate.is_open_to(words[1], fields)

    def _hand_over(self) -> None:
        assert self._transport is not None
        self._gate.unauthenticated.discard(self)
        handler = self._server()
        self._transport.set_protocol(handler)
        handler.connection_made(self._transport)
        handler.data_received(bytes(self._held))
        self._held.clear()

    def _refuse(self) -> None:
        """Send the 401 response, and only end the output: after a close, the client might not receive it."""
        assert self._transport is not None
        self._refused = True
        self._held.clear()
        self._transport.write(self._gate.refusal.raw())
        if self._transport.can_write_eof():
            self._transport.write_eof()
        else:
            self._transport.close()
