"""The agent's connection to its zygote, the process from which attempts are forked.

It starts the zygote, exchanges messages with it, and notices when the zygote ends.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from typing import Protocol

from schedbed.cluster.agent.warm import zygote
from schedbed.cluster.agent.warm.line import JsonLine, Message

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
        """Return the exit code of the process, or None while it is running. Implements `Child`."""
        return self._look(os.WNOHANG)

    def kill(self) -> None:
        """Send SIGKILL to the process, unless it has ended. Implements `Child`."""
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
        """Start a zygote in a new interpreter and return the connection to it.

        The zygote keeps the descriptor `lock`, which locks the agent's folder, open until it ends.
        """
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
        """Fork a zygote from this process and return the connection to it.

        The zygote keeps the descriptor `lock`, which locks the agent's folder, open until it ends. This
        process must have a single thread, and must have imported all modules that a zygote needs.
        """
        ours, theirs = socket.socketpair()
        pid = os.fork()
        if not pid:
            zygote.live_in_fork(theirs, lock)
        theirs.close()
        return ZygoteLink(Forked(pid), ours)

    @property
    def pid(self) -> int:
        """Return the zygote's process id."""
        return self._process.pid

    async def connect(
        self, setup: Message, on_message: Callable[[Message], None], on_end: Callable[[], None]
    ) -> None:
        """Send `setup` to the zygote and wait until the zygote has imported its modules.

        `on_message` is called with each message after that, and `on_end` once when the zygote has ended.
        Raises ZygoteDied.
        """
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
        """Send a message, optionally with a file descriptor, which is then closed in this process.

        If the zygote has ended, the message is discarded.
        """
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
