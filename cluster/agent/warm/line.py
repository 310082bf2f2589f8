"""The agent's end of a socket to a child process. Messages are JSON lines, some with a file descriptor."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
from collections import deque
from collections.abc import Callable
from typing import Any

Message = dict[str, Any]
READ_BYTES = 1 << 16


class JsonLine:
    """JSON messages in both directions over the socket `end`. Must be used inside a running event loop.

    No method blocks: messages that the other process does not read yet are queued. `on_message` is called
    with each received object. `on_end` is called once when the other process has closed the socket, or has
    sent a line that is not JSON or is longer than `limit` bytes. This class closes the socket.
    """

    def __init__(
        self,
        end: socket.socket,
        on_message: Callable[[Message], None],
        on_end: Callable[[], None],
        limit: int,
    ) -> None:
        end.setblocking(False)
        self._socket = end
        self._on_message = on_message
        self._on_end = on_end
        self._limit = limit
        self._heard = b""
        self._unsent: deque[tuple[bytes, int | None]] = deque()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(end.fileno(), self.read)

    def send(self, message: Message, descriptor: int | None = None) -> None:
        """Send a JSON object, optionally with a file descriptor, which is then closed in this process.

        If the socket is closed, the object is discarded.
        """
        if self._socket.fileno() < 0:
            _close(descriptor)
            return
        self._unsent.append((json.dumps(message).encode() + b"\n", descriptor))
        if len(self._unsent) == 1 and not self._write():
            self._loop.add_writer(self._socket.fileno(), self._write_more)

    def close(self) -> None:
        """Close the socket. After that, `on_message` and `on_end` are not called."""
        if self._socket.fileno() < 0:
            return
        self._loop.remove_reader(self._socket.fileno())
        self._loop.remove_writer(self._socket.fileno())
        self._socket.close()
        while self._unsent:
            _close(self._unsent.popleft()[1])

    def _write(self) -> bool:
        """Send queued messages until the socket would block. Return whether the queue is now empty."""
        try:
            while self._unsent:
                data, descriptor = self._unsent[0]
                sent = socket.send_fds(self._socket, [data], [] if descriptor is None else [descriptor])
                _close(descriptor)
                if sent < len(data):
                    self._unsent[0] = data[sent:], None
                else:
                    self._unsent.popleft()
        except BlockingIOError:
            return False
        except OSError:  # The next read notices that the other process has closed.
            while self._unsent:
                _close(self._unsent.popleft()[1])
        return True

    def _write_more(self) -> None:
        if self._write():
            self._loop.remove_writer(self._socket.fileno())

    def read(self) -> None:
        """Read and process the messages that have arrived. Do nothing if there are none."""
        try:
            data = self._socket.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        *lines, self._heard = (self._heard + data).split(b"\n")
        try:
            if len(self._heard) > self._limit:
                raise ValueError("a line without end")
            messages = [json.loads(line) for line in lines]
        except (ValueError, RecursionError):
            messages, data = [], b""
        for message in messages:
            if isinstance(message, dict) and self._socket.fileno() >= 0:
                self._on_message(message)
        if not data and self._socket.fileno() >= 0:
            self.close()
            self._on_end()


def _close(descriptor: int | None) -> None:
    if descriptor is not None:
        with contextlib.suppress(OSError):
            os.close(descriptor)
