"""The agent's end of the zygote: starts it, talks to it, and reports its end."""

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
"""In the environment: an attempt is one emulated core, numpy's own threads would only take memory."""


class Child(Protocol):
    """A child process, with methods as in `subprocess.Popen`."""

    pid: int

    def poll(self) -> int | None:
        """Return the exit code; None while the process runs."""
        ...

    def kill(self) -> None:
        """Send SIGKILL, unless the end of the process has been seen."""
        ...

    def wait(self) -> int:
        """Wait for the end of the process. Return the exit code."""
        ...


class Forked:
    """A `Child` that was made by fork."""

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
        """Implement `Child`."""
        code = self._look(0)
        assert code is not None
        return code

    def _look(self, options: int) -> int | None:
        if self._code is None:
            pid, status = os.waitpid(self.pid, options)
            self._code = os.waitstatus_to_exitcode(status) if pid else None
        return self._code


class ZygoteDied(Exception):
    """The warm process ended before it was ready. The reason is in the agent's log."""


class ZygoteLink:
    """A running zygote. `on_message` gets its messages; `on_end` is called once when it has ended."""

    def __init__(self, process: Child, ours: socket.socket) -> None:
        self._process = process
        self._socket = ours
        self._line: JsonLine | None = None

    @staticmethod
    def start(lock: int) -> ZygoteLink:
        """Start the zygote in a new interpreter. `lock` is a descriptor that it keeps open while it lives."""
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
        """Fork the zygote from this process, which must have one thread and all modules that a zygote needs. `lock`
        as in `start`."""
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
        """Configure the zygote and wait until it is warm. Raises ZygoteDied."""
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
        """Send a message and optionally a descriptor, which is closed here. Does nothing if the zygote has ended;
        `on_end` reports that."""
        if self._line is not None:
            self._line.send(message, descriptor)

    async def close(self) -> None:
        """End the zygote with all attempts, and wait for its end."""
        if self._line is not None:
            self._line.close()
        self._socket.close()
        give_up = asyncio.get_running_loop().time() + END_S
        while self._process.poll() is None and asyncio.get_running_loop().time() < give_up:
            await asyncio.sleep(0.005)
        self._process.kill()  # does nothing to a process that has been waited for
        self._process.wait()
