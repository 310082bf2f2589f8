"""The agent's end of the zygote: starts it, speaks to it, and says when it has gone."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from typing import Any

Message = dict[str, Any]
END_S = 3.0


class ZygoteDied(Exception):
    """The warm process ended before it was ready; its reason is in the agent's log."""


class ZygoteLink:
    """One zygote. `on_message` gets what it says, `on_end` is called once when it is gone."""

    def __init__(self, lock: int) -> None:
        """`lock` is a descriptor that the zygote shall hold as long as it lives. Starts the process."""
        ours, theirs = socket.socketpair()
        arguments = [sys.executable, "-P", "-m", "schedbed.cluster.agent.zygote", str(theirs.fileno())]
        # An attempt is one emulated core: numpy's own threads would only take memory.
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        with theirs:
            self._process = subprocess.Popen(
                arguments, stdin=subprocess.DEVNULL, pass_fds=(theirs.fileno(), lock), env=environment
            )
        self._socket = ours
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None

    async def connect(
        self, setup: Message, on_message: Callable[[Message], None], on_end: Callable[[], None]
    ) -> None:
        """Sets the zygote up and waits until it is warm. Raises ZygoteDied."""
        reader, self._writer = await asyncio.open_connection(sock=self._socket, limit=1 << 24)
        self.send({"type": "setup", **setup})
        if not await reader.readline():
            raise ZygoteDied("the warm process ended while it imported numpy and the applications")
        self._reading = asyncio.create_task(self._read(reader, on_message, on_end))

    def send(self, message: Message) -> None:
        """Sends at once; a zygote that is gone hears nothing, `on_end` tells."""
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(json.dumps(message).encode() + b"\n")

    async def close(self) -> None:
        """Ends the zygote and with it all attempts; returns when they are gone."""
        if self._reading is not None:
            self._reading.cancel()
        if self._writer is not None:
            self._writer.close()
        self._socket.close()
        give_up = asyncio.get_running_loop().time() + END_S
        while self._process.poll() is None and asyncio.get_running_loop().time() < give_up:
            await asyncio.sleep(0.005)
        self._process.kill()  # does nothing to a process that has been waited for
        self._process.wait()

    async def _read(
        self, reader: asyncio.StreamReader, on_message: Callable[[Message], None], on_end: Callable[[], None]
    ) -> None:
        with contextlib.suppress(ConnectionError):
            while line := await reader.readline():
                on_message(json.loads(line))
        on_end()
