"""The standard input, output and error of a container, kept open while the container runs."""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
from pathlib import Path
from typing import Any

from docker.utils.socket import STDOUT, frames_iter

END_S = 10.0  # The time allowed for the engine to close a stream.


class Streams:
    """The standard streams of one container. Standard error is written to the file `log` on this host."""

    def __init__(self, api: Any, container: str, log: Path) -> None:
        """Attach to a container before its start, so that no output is missed."""
        self._stream = api.attach_socket(
            container, params={"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1, "logs": 0}
        )
        self._socket: socket.socket = self._stream._sock
        self._socket.settimeout(None)
        self._log = log
        self._lines: queue.Queue[bytes] = queue.Queue()
        self.ended = threading.Event()
        threading.Thread(target=self._pump, daemon=True, name=f"{container} output").start()

    def send(self, text: str) -> None:
        """Write text to the standard input of the container.

        Errors are ignored, because a dead container is detected later by its missing output.
        """
        with contextlib.suppress(OSError):
            self._socket.sendall(text.encode())

    def first(self, patience_s: float) -> bytes:
        """Return the first line of the container's standard output, after waiting up to `patience_s` seconds.

        Return an empty string if there is no line by then, or if the output has ended.
        """
        with contextlib.suppress(queue.Empty):
            return self._lines.get(timeout=patience_s)
        return b""

    def close_input(self) -> None:
        """Close the standard input of the container."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close all streams of the container."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self.ended.wait(END_S)
        self._stream._response.close()  # Without this, the response would report an error when freed.
        self._socket.close()

    def _pump(self) -> None:
        left = b""
        try:
            with contextlib.suppress(OSError), self._log.open("ab", buffering=0) as log:
                for stream, data in frames_iter(self._stream, tty=False):
                    if stream == STDOUT:
                        *lines, left = (left + data).split(b"\n")
                        for line in lines:
                            self._lines.put(line)
                    else:
                        log.write(data)
        finally:
            self.ended.set()
            self._lines.put(b"")
