"""The agent's end of the zygote: starts it, speaks to it, and says when it has gone."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Callable

from schedbed.cluster.agent.warm.line import JsonLine, Message

END_S = 3.0
LINE_BYTES = 1 << 20


class ZygoteDied(Exception):
    """The warm process ended before it was ready; its reason is in the agent's log."""


class ZygoteLink:
    """One zygote. `on_message` gets what it says, `on_end` is called once when it is gone."""

    def __init__(self, lock: int) -> None:
        """`lock` is a descriptor that the zygote shall hold as long as it lives. Starts the process."""
        ours, theirs = socket.socketpair()
        module = "schedbed.cluster.agent.warm.zygote"
        arguments = [sys.executable, "-P", "-m", module, str(theirs.fileno())]
        # An attempt is one emulated core: numpy's own threads would only take memory.
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        with theirs:
            self._process = subprocess.Popen(
                arguments, stdin=subprocess.DEVNULL, pass_fds=(theirs.fileno(), lock), env=environment
            )
        self._socket = ours
        self._line: JsonLine | None = None

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    async def connect(
        self, setup: Message, on_message: Callable[[Message], None], on_end: Callable[[], None]
    ) -> None:
        """Sets the zygote up and waits until it is warm. Raises ZygoteDied."""
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
        """Sends at once, with a descriptor, which is closed here; one that is gone hears nothing, `on_end` tells."""
        if self._line is not None:
            self._line.send(message, descriptor)

    async def close(self) -> None:
        """Ends the zygote and with it all attempts; returns when they are gone."""
        if self._line is not None:
            self._line.close()
        self._socket.close()
        give_up = asyncio.get_running_loop().time() + END_S
        while self._process.poll() is None and asyncio.get_running_loop().time() < give_up:
            await asyncio.sleep(0.005)
        self._process.kill()  # does nothing to a process that has been waited for
        self._process.wait()
