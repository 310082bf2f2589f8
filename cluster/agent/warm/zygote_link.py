"""The agent's connection to its zygote, the process from which attempts are forked."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from schedbed.cluster.agent.warm import zygote

END_S = 3.0
LINE_BYTES = 1 << 20


ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
"""Environment of the zygote: an attempt uses one core, so threads of numpy would only cost memory."""


class Child(Protocol):
    """The interface of a child process, with methods as in `subprocess.Popen`."""

    pid: int

    def poll(self) -> int | None:
        """Return the exit code of the process, or None while the process is running."""
        ...

    def kill(self) -> None:
        """Send SIGKILL to the process, unless it is known to have ended."""
        ...

    def wait(self) -> int:
        """Wait until the process ends. Return its exit code."""
        ...


class Forked:
    """A child process that os.fork created. It implements `Child`."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._code: int | None = None

    def poll(self) -> int | None:
        """Implement `Child`."""
        return self._look(os.WNOHANG)

    def kill(self) -> None:
        """Implement `Child`."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> int:
        """Wait until the process ends. Return its exit code. Implements `Child`."""
        code = self._look(0)
        assert code is not None
        return code

    def _look(self, options: int) -> int | None:
        if self._code is None:
            pid, status = os.waitpid(self.pid, options)
            self._code = os.waitstatus_to_exitcode(status) if pid else None
        return self._code


class ZygoteDied(Exception):
    """The zygote ended before it had imported its modules. The agent's log contains the reason."""


class ZygoteLink:
    """A running zygote (the process from which attempts are forked) and the socket to it."""

    def __init__(self, process: Child, ours: socket.socket) -> None:
        self._process = process
        self._socket = ours
        self._line: JsonLine | None = None

    @staticmethod
    def start(lock: int) -> ZygoteLink:
        """Start a zygote in a new interpreter. It keeps `lock`, the lock of the agent's folder, open."""
        ours, theirs = socket.socketpair()
        arguments = [sys.executable, "-P", "-m", zygote.__name__, str(theirs.fileno())]
        environment = {**os.environ, **ONE_THREAD}
        with theirs:
            process = subprocess.Popen(
                arguments, stdin=subprocess.DEVNULL, pass_fds=(theirs.fileno(), lock), env=environment
            )
        return ZygoteLink(process, ours)

    @staticmethod
    def fork(lock: int) -> ZygoteLink:
        """Fork a zygote, from a single thread with all its modules imported. It keeps `lock` open."""
        ours, theirs = socket.socketpair()
        pid = os.fork()
        if not pid:
            zygote.live_in_fork(theirs, lock)
        theirs.close()
        return ZygoteLink(Forked(pid), ours)

    @property
    def pid(self) -> int:
        return self._process.pid

    async def connect(
        self, setup: Message, on_message: Callable[[Message], None], on_end: Callable[[], None]
    ) -> None:
        """Send `setup` and wait for the zygote's imports. Later messages go to `on_message`. Raises ZygoteDied."""
        warm: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        def heard(message: Message) -> None:
            if warm.done():
                on_message(message)
            else:
                warm.set_result(True)

        def ended() -> None:
            if warm.done():
                on_end()
            else:
                warm.set_result(False)

        self._line = JsonLine(self._socket, heard, ended, LINE_BYTES)
        self.send({"type": "setup", **setup})
        if not await warm:
            raise ZygoteDied("the warm process ended while it imported numpy and the applications")

    def send(self, message: Message, descriptor: int | None = None) -> None:
        """Send a message, with a descriptor that is then closed here. Discarded if the zygote has ended."""
        if self._line is not None:
            self._line.send(message, descriptor)

    async def close(self) -> None:
        """End the zygote and all attempts, and wait until the zygote's process has ended."""
        if self._line is not None:
            self._line.close()
        self._socket.close()
        give_up = asyncio.get_running_loop().time() + END_S
        while self._process.poll() is None and asyncio.get_running_loop().time() < give_up:
            await asyncio.sleep(0.005)
        self._process.kill()  # Does nothing if the process has been waited for.
        self._process.wait()


# The agent's end of a socket to a child process. Messages are JSON lines, some with a file descriptor.

Message = dict[str, Any]
READ_BYTES = 1 << 16


class JsonLine:
    """JSON messages in both directions over the socket `end`, which it closes. Needs a running event loop.

    No method blocks. `on_end` is called once when the other process has closed the socket, or has sent a line
    that is not JSON or is longer than `limit` bytes.
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
        """Send an object, with a descriptor that is then closed here. Discarded if the socket is closed."""
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
