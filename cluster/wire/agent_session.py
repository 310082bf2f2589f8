"""HTTP client sessions for requests to agents, with the run's token and TLS."""

from __future__ import annotations

from collections.abc import Mapping

import aiohttp

from schedbed.cluster.wire.tls import Tls

PATIENCE = aiohttp.ClientTimeout(total=300.0, sock_connect=30.0)
"""The default timeouts of aiohttp."""


def agent_session(
    token: str,
    tls: Tls | None,
    *,
    headers: Mapping[str, str] | None = None,
    timeout: aiohttp.ClientTimeout = PATIENCE,
) -> aiohttp.ClientSession:
    """Return a session that sends the run's token. With TLS, clear text raises ClientConnectionError."""
    return aiohttp.ClientSession(
        headers={"Authorization": f"Bearer {token}", **(headers or {})},
        timeout=timeout,
        connector=aiohttp.TCPConnector(limit=0, ssl=True if tls is None else tls.connecting()),
        trace_configs=[] if tls is None else [_refusing_clear_text()],
    )


def _refusing_clear_text() -> aiohttp.TraceConfig:
    async def look(_session: object, _context: object, request: aiohttp.TraceRequestStartParams) -> None:
        if request.url.scheme not in ("https", "wss"):
            raise aiohttp.ClientConnectionError(f"{request.url.origin()}: expected https, as the run has TLS")

    watch = aiohttp.TraceConfig()
    watch.on_request_start.append(look)
    return watch
