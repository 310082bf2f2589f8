"""Message frames on a byte stream: a length in four bytes, followed by a JSON text of this length."""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import Callable, Mapping
from typing import Any, cast

from schedbed.cluster.blocks.block_errors import BlockStoreError
from schedbed.cluster.checksum_chain import JournalDamaged
from schedbed.cluster.masters import MasterGone
from schedbed.cluster.wire.endpoint import notice_silence
from schedbed.tasks.errors import BadInput

HEADER = struct.Struct("!I")
GREETING_BYTES = 1024
"""Longest frame in bytes of a peer that has not sent the token."""
FRAME_BYTES = 256 * 2**20
"""Longest frame in bytes of other peers: rows not fetched for a while, or the plan of a very large run."""

_encode = json.JSONEncoder(separators=(",", ":")).encode


class TooLong(Exception):
    """A message is longer than the receiving process accepts."""


def frame(value: Any) -> bytes:
    """Return the bytes to send. Raises TooLong, or TypeError or ValueError for what JSON cannot express."""
    body = _encode(value).encode()
    if len(body) > FRAME_BYTES:
        raise TooLong(f"a message of {len(body)} bytes, expected at most {FRAME_BYTES}")
    return HEADER.pack(len(body)) + body


class Frames(asyncio.Protocol):
    """Exchanges JSON messages in frames; `lost(connection)` comes once, after its end.

    A frame that is longer than `limit_bytes`, or is not JSON, ends the connection.
    """

    def __init__(
        self, take: Callable[[Frames, Any], None], lost: Callable[[Frames], None], limit_bytes: int
    ) -> None:
        self.limit_bytes = limit_bytes
        self._take = take
        self._lost = lost
        self._held = bytearray()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport, and make the kernel detect vanished hosts."""
        self._transport = cast(asyncio.Transport, transport)
        notice_silence(transport.get_extra_info("socket"))

    def connection_lost(self, exc: Exception | None) -> None:
        """Implement `asyncio.Protocol`: discard an incomplete frame, and call the callback `lost`."""
        self._transport = None
        self._held.clear()
        self._lost(self)

    def data_received(self, data: bytes) -> None:
        """Implement `asyncio.Protocol`: pass the message of each complete frame to the callback `take`."""
        held = self._held
        held += data
        at = 0
        while self._transport is not None and len(held) - at >= HEADER.size:
            (size,) = HEADER.unpack_from(held, at)
            if size > self.limit_bytes:
                self.close()
                return
            end = at + HEADER.size + size
            if len(held) < end:
                break
            body = bytes(held[at + HEADER.size : end])
            at = end
            try:
                value = json.loads(body)
            except (ValueError, RecursionError):
                self.close()
                return
            self._take(self, value)
        del held[:at]

    @property
    def is_open(self) -> bool:
        return self._transport is not None

    def send(self, framed: bytes) -> None:
        """Send a frame, or discard it if the connection has ended."""
        if self._transport is not None:
            self._transport.write(framed)

    def close(self) -> None:
        """Close the connection immediately. Unsent data is discarded."""
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()


# Conversion of exceptions that one process raises and another handles.
#
# Only class name and message are sent.


class CallFailed(Exception):
    """The remote process raised an exception that callers do not expect. The log of that process has the traceback."""


_KNOWN: Mapping[str, type[Exception]] = {
    kind.__name__: kind
    for kind in (MasterGone, BadInput, JournalDamaged, BlockStoreError, *BlockStoreError.__subclasses__())
}


def error_to_wire(error: Exception) -> list[str]:
    return [type(error).__name__, str(error)]


def is_expected(error: Exception) -> bool:
    """Return whether callers of remote calls expect this class."""
    return type(error).__name__ in _KNOWN


def error_from_wire(name: str, words: str) -> Exception:
    """Return the exception as raised by the remote process, or a CallFailed if none is expected."""
    known = _KNOWN.get(name)
    return CallFailed(f"{name}: {words}") if known is None else known(words)
