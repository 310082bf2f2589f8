"""A TCP proxy that records all bytes that pass."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


class Tap:
    """The recorded bytes of both directions; `cut` breaks the open connections."""

    def __init__(self) -> None:
        self.port = 0
        self.passed = bytearray()
        self.connections = 0
        self._open: set[asyncio.StreamWriter] = set()

    def cut(self) -> None:
        for writer in self._open:
            writer.transport.abort()

    async def join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
        """Forward a connection to `port` until both ends have closed it."""
        self.connections += 1
        there, back = await asyncio.open_connection("127.0.0.1", port)
        self._open |= {writer, back}
        await asyncio.gather(self._carry(reader, back), self._carry(there, writer))
        self._open -= {writer, back}

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                self.passed += data
                writer.write(data)
                await writer.drain()
        writer.close()


@asynccontextmanager
async def tapped(port: int) -> AsyncIterator[Tap]:
    """Yield a recording proxy on the loopback interface that forwards to `port`."""
    tap = Tap()
    server = await asyncio.start_server(lambda *ends: tap.join(ends[0], ends[1], port), "127.0.0.1", 0)
    tap.port = server.sockets[0].getsockname()[1]
    try:
        yield tap
    finally:
        server.close()
        tap.cut()
