"""Programs that bypass their node's network budget with connections of their own.

They use `os.read` and `os.write`, whose bytes the kernel counts for each process (`/proc/PID/io`).
"""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import time

from schedbed.tasks.hostile.orders import HostileWork

PIECE_BYTES = 256 * 1024
CONNECT_S = 10.0
GRACE_S = 2.0  # Seconds after the senders' time.


def send(work: HostileWork) -> None:
    """Send bytes to the receiver as fast as possible."""
    piece = os.urandom(PIECE_BYTES)
    with _connected(work) as line:
        end_s = time.monotonic() + work.seconds
        with contextlib.suppress(ConnectionError):  # The receiver has stopped.
            while time.monotonic() < end_s:
                os.write(line.fileno(), piece)


def receive(work: HostileWork) -> None:
    """Receive bytes from all senders until all of them have closed their connections, or the time is over."""
    with socket.create_server(("", work.port)) as door, selectors.DefaultSelector() as selector:
        selector.register(door, selectors.EVENT_READ)
        lines: set[socket.socket] = set()
        end_s, connected = time.monotonic() + CONNECT_S + work.seconds + GRACE_S, False
        while time.monotonic() < end_s and (lines or not connected):
            for key, _ in selector.select(0.2):
                if key.fileobj is door:
                    line, _ = door.accept()
                    lines.add(line)
                    selector.register(line, selectors.EVENT_READ, line)
                    connected = True
                elif not _take(key.data):
                    selector.unregister(key.data)
                    lines.discard(key.data)
                    key.data.close()
        for line in lines:
            line.close()


def _take(line: socket.socket) -> bool:
    """Read once and discard. Return False at the stream's end."""
    try:
        return bool(os.read(line.fileno(), PIECE_BYTES))
    except ConnectionError:
        return False


def _connected(work: HostileWork) -> socket.socket:
    """Return a connection to the receiver, after retrying for up to 10 s. Raises OSError if it cannot connect."""
    give_up_s = time.monotonic() + CONNECT_S
    while True:
        try:
            return socket.create_connection((work.peer, work.port), timeout=None)
        except ConnectionError:
            if time.monotonic() > give_up_s:
                raise
            time.sleep(0.05)
