"""The client end of remote calls over a socket: one connection for all calls, reopened if it breaks."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schedbed.cluster.masters import MasterGone
from schedbed.cluster.wire.endpoint import Endpoint, connect
from schedbed.cluster.wire.framing import FRAME_BYTES, CallFailed, Frames, error_from_wire, frame
from schedbed.cluster.wire.value_codec import Codec, WrongValue, codecs_of

log = logging.getLogger(__name__)

Find = Callable[[], Awaitable[Endpoint]]


@dataclass(slots=True)
class _Call:
    """A call without an answer yet. `heard_by` is the server process that it was sent to, or ""."""

    framed: bytes
    result: Codec
    answer: asyncio.Future[Any]
    heard_by: str = ""


class ClientEnd:
    """The client end of a door (a Protocol of remote calls), used from one event loop.

    After a break it connects again and repeats calls without an answer, which the server recognizes. A call
    raises MasterGone if the server cannot be reached, or restarted after it received the call: it may then
    have been carried out.
    """

    def __init__(self, door: type[Any], find: Find) -> None:
        self._codecs = codecs_of(door)
        self._find = find
        self._name = secrets.token_hex(8)
        self._number = 0
        self._calls: dict[int, _Call] = {}  # oldest first
        self._frames: Frames | None = None  # a connection whose token the server has accepted
        self._life = ""
        self._welcome: asyncio.Future[str] | None = None
        self._connecting: asyncio.Task[None] | None = None

    async def call(self, method: str, args: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """Call `method` on the server and return its result, or raise its exception. Implements `doors.Send`."""
        codec = self._codecs[method]
        self._number += 1
        number = self._number
        settled = next(iter(self._calls), number)
        framed = frame([number, settled, method, codec.pack(args, named)])
        answer = asyncio.get_running_loop().create_future()
        call = self._calls[number] = _Call(framed, codec.result, answer)
        try:
            if self._frames is not None:
                self._send(call)
            elif self._connecting is None:
                self._connecting = asyncio.create_task(self._connect())
            return await answer
        finally:
            self._calls.pop(number, None)

    def close(self) -> None:
        """Close the connection. Calls that wait for an answer raise MasterGone."""
        if self._connecting is not None:
            self._connecting.cancel()
        self._fail("closed", self._calls.values())
        if self._frames is not None:
            self._frames.close()

    def _send(self, call: _Call) -> None:
        assert self._frames is not None
        call.heard_by = self._life
        self._frames.send(call.framed)

    # ------------------------------------------------------------- connections

    async def _connect(self) -> None:
        """Connect and send the waiting calls, which raise MasterGone if that fails."""
        frames = Frames(self._hear, self._lose, FRAME_BYTES)
        try:
            place = await self._find()
            self._welcome = asyncio.get_running_loop().create_future()
            await connect(place, lambda: frames)
            frames.send(frame({"token": place.token, "client": self._name}))
            life = await self._welcome
        except Exception as error:
            if not isinstance(error, MasterGone | OSError):
                log.exception("no connection")
            frames.close()
            self._fail(str(error), self._calls.values())
            return
        finally:
            self._connecting = self._welcome = None
        self._take_over(frames, life)

    def _take_over(self, frames: Frames, life: str) -> None:
        """Use a new connection to the process `life`. Calls sent to an earlier one raise MasterGone."""
        self._frames, self._life = frames, life
        strangers = [call for call in self._calls.values() if call.heard_by not in ("", life)]
        self._fail("it has started again", strangers)
        for call in self._calls.values():
            if not call.answer.done():
                self._send(call)
        if not frames.is_open:
            self._lose(frames)

    def _lose(self, frames: Frames) -> None:
        if self._welcome is not None and not self._welcome.done():
            self._welcome.set_exception(MasterGone("the connection was refused"))
        if frames is self._frames:
            self._frames = None
            if self._calls:
                self._connecting = asyncio.create_task(self._connect())

    def _fail(self, why: str, calls: Any) -> None:
        for call in calls:
            if not call.answer.done():
                call.answer.set_exception(MasterGone(why))

    # ----------------------------------------------------------------- answers

    def _hear(self, frames: Frames, said: Any) -> None:
        match said:
            case {"life": str(life)} if self._welcome is not None and not self._welcome.done():
                self._welcome.set_result(life)
            case [int(number), result]:
                self._settle(number, result)
            case [int(number), str(name), str(words)]:
                call = self._calls.get(number)
                if call is not None and not call.answer.done():
                    call.answer.set_exception(error_from_wire(name, words))
            case _:
                frames.close()

    def _settle(self, number: int, result: Any) -> None:
        call = self._calls.get(number)
        if call is None or call.answer.done():
            return
        try:
            call.answer.set_result(call.result.take(result))
        except WrongValue as error:
            call.answer.set_exception(CallFailed(str(error)))
