"""The agent's end of the control connection to the TaskTracker, a websocket for JSON messages in order.

Messages that are queued while no TaskTracker is connected are sent over the next connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections import deque
from collections.abc import Callable
from typing import Any

from aiohttp import WSMsgType, web

from schedbed.cluster.agent.folder import BadRequest

log = logging.getLogger(__name__)

Message = dict[str, Any]
CLOSE_S = 1.0  # seconds to wait for a TaskTracker that no longer answers a close


class Control:
    """A websocket server for the TaskTracker, with a queue of outgoing messages.

    The first message on each connection is the result of `hello()`. A new connection replaces the previous
    one. Incoming messages are passed to `handle`, which raises an exception for a message that is invalid or
    cannot be carried out. BadRequest, KeyError, TypeError, ValueError and OSError are logged.
    """

    def __init__(self, hello: Callable[[], Message], handle: Callable[[Message], None]) -> None:
        self._hello = hello
        self._handle = handle
        self._unsent: deque[Message] = deque()
        self._due = asyncio.Event()
        self._socket: web.WebSocketResponse | None = None

    @property
    def ready(self) -> bool:
        """Return whether a TaskTracker is connected and the queue of outgoing messages is empty."""
        return self._socket is not None and not self._socket.closed and not self._unsent

    def say(self, message: Message) -> None:
        """Send a message to the TaskTracker. Without a connection, the message is queued for the next one."""
        self._unsent.append(message)
        self._due.set()

    async def serve(self, request: web.Request) -> web.WebSocketResponse:
        """Serve `GET /control`: open a websocket, and exchange messages until the connection ends."""
        socket = web.WebSocketResponse(timeout=CLOSE_S, max_msg_size=0, compress=False)
        await socket.prepare(request)
        before, self._socket = self._socket, socket
        if before is not None:
            await before.close()
        await socket.send_str(json.dumps(self._hello()))
        sending = asyncio.create_task(self._send(socket))
        try:
            async for message in socket:
                if message.type is WSMsgType.TEXT:
                    self._hear(message.data)
        finally:
            sending.cancel()
            if self._socket is socket:
                self._socket = None
        return socket

    async def close(self) -> None:
        """Close the connection to the TaskTracker, if any."""
        if self._socket is not None:
            await self._socket.close()

    async def _send(self, socket: web.WebSocketResponse) -> None:
        with contextlib.suppress(ConnectionError):
            while True:
                while self._unsent:
                    await socket.send_str(json.dumps(self._unsent[0]))
                    self._unsent.popleft()
                self._due.clear()
                await self._due.wait()

    def _hear(self, text: str) -> None:
        try:
            message = json.loads(text)
            if not isinstance(message, dict):
                raise BadRequest("expected an object")
            self._handle(message)
        except (BadRequest, KeyError, TypeError, ValueError, OSError) as error:
            log.warning("message not understood: %s: %r", text[:200], error)
