"""The server end of remote calls over a socket, whose first message must contain the token.

A repeated call gets the first answer again, and is not carried out twice.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from schedbed.cluster.wire.endpoint import Endpoint, listen
from schedbed.cluster.wire.framing import (
    FRAME_BYTES,
    GREETING_BYTES,
    Frames,
    TooLong,
    error_to_wire,
    frame,
    is_expected,
)
from schedbed.cluster.wire.unauthenticated_peers import UnauthenticatedPeers
from schedbed.cluster.wire.value_codec import WrongValue, codecs_of, packed
from schedbed.tasks.errors import BadInput

log = logging.getLogger(__name__)

Serve = Callable[[str, Mapping[str, Any]], Awaitable[Any]]

FORGET_S = 60.0
"""Seconds for which the answers to a disconnected client are kept."""


class _Client:
    """The state of one client over all its connections: the running calls, and the stored answers."""

    def __init__(self) -> None:
        self.frames: Frames | None = None
        self.lost_s = 0.0
        self._answers: dict[int, bytes | None] = {}  # by call number; None while the call is running

    def settle(self, number: int) -> None:
        """Discard answers below `number`, for which the client does not wait any more."""
        while self._answers and (oldest := next(iter(self._answers))) < number:
            del self._answers[oldest]

    def is_new(self, number: int) -> bool:
        """Return whether a call is new, or send a repeated one's answer again."""
        if number not in self._answers:
            self._answers[number] = None
            return True
        answer = self._answers[number]
        if answer is not None and self.frames is not None:
            self.frames.send(answer)
        return False

    def answer(self, number: int, framed: bytes) -> None:
        """Send the answer `framed` to the call with this number, and store it until `settle` discards it."""
        if number in self._answers:
            self._answers[number] = framed
        if self.frames is not None:
            self.frames.send(framed)


class ServerEnd:
    """The server end of a door (a Protocol of remote calls). `serve(method, arguments)` does one call.

    A client learns the random id of this process when it connects, by which it notices a restart.
    """

    def __init__(self, door: type[Any], serve: Serve) -> None:
        self._codecs = codecs_of(door)
        self._serve = serve
        self._life = secrets.token_hex(8)
        self._clients: dict[str, _Client] = {}
        self._of: dict[Frames, _Client] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._unauthenticated = UnauthenticatedPeers("")

    async def listen(self, place: Endpoint) -> Endpoint:
        """Listen at the address `place` for clients with its token. Return the address with the port in use."""
        self._unauthenticated = UnauthenticatedPeers(place.token)
        self._server, found = await listen(place, self._connection, self._unauthenticated)
        return found

    async def close(self) -> None:
        """Close all connections and cancel all running calls."""
        if self._server is not None:
            self._server.close()
        self._unauthenticated.drop_all()
        for frames in list(self._of):
            frames.close()
        for task in list(self._tasks):
            task.cancel()

    # ------------------------------------------------------------- connections

    def _connection(self) -> Frames:
        frames = Frames(self._hear, self._lose, GREETING_BYTES)
        self._unauthenticated.add(frames, frames.close)
        return frames

    def _hear(self, frames: Frames, said: Any) -> None:
        client = self._of.get(frames)
        if client is None:
            self._greet(frames, said)
        else:
            self._call(client, frames, said)

    def _greet(self, frames: Frames, said: Any) -> None:
        """Admit a client whose first message contains the token, or close without an answer."""
        self._unauthenticated.discard(frames)
        match said:
            case {"token": str(token), "client": str(name)} if self._unauthenticated.is_token(token):
                client = self._clients.setdefault(name, _Client())
            case _:
                frames.close()
                return
        before, client.frames = client.frames, frames
        if before is not None:
            before.close()
        self._of[frames] = client
        frames.limit_bytes = FRAME_BYTES
        frames.send(frame({"life": self._life}))

    def _lose(self, frames: Frames) -> None:
        self._unauthenticated.discard(frames)
        client = self._of.pop(frames, None)
        if client is not None and client.frames is frames:
            loop = asyncio.get_running_loop()
            client.frames, client.lost_s = None, loop.time()
            loop.call_later(FORGET_S, self._forget_clients)

    def _forget_clients(self) -> None:
        before_s = asyncio.get_running_loop().time() - FORGET_S
        self._clients = {
            name: client
            for name, client in self._clients.items()
            if client.frames is not None or client.lost_s > before_s
        }

    # ------------------------------------------------------------------- calls

    def _call(self, client: _Client, frames: Frames, said: Any) -> None:
        match said:
            case [int(number), int(settled), str(method), given]:
                client.settle(settled)
                if client.is_new(number):
                    task = asyncio.create_task(self._answer(client, number, method, given))
                    self._tasks.add(task)
                    task.add_done_callback(self._tasks.discard)
            case _:
                frames.close()

    async def _answer(self, client: _Client, number: int, method: str, given: Any) -> None:
        try:
            framed = frame([number, await self._result(method, given)])
        except Exception as error:
            if not is_expected(error):
                log.exception("%s failed", method)
            framed = frame([number, *error_to_wire(error)])
        client.answer(number, framed)

    async def _result(self, method: str, given: Any) -> Any:
        codec = self._codecs.get(method)
        if codec is None:
            raise BadInput(f"{method[:80]!r}: no call of this door")
        try:
            arguments = codec.take(given)
        except WrongValue as error:
            raise BadInput(f"{method}: {error}") from None
        try:
            return packed(codec.result, await self._serve(method, arguments))
        except TooLong as error:
            raise BadInput(f"{method}: {error}") from None
