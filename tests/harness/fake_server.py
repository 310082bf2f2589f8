"""A server with one fixed answer."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from schedbed.deploy.security.listeners import Listener


@contextmanager
def answering(said: bytes, tls: ssl.SSLContext | None = None) -> Iterator[Listener]:
    """Serve on a loopback port: answer every connection with the same bytes, then close it.

    With `tls` the server speaks TLS.
    """

    def serve(line: socket.socket) -> None:
        while True:
            try:
                peer, _ = line.accept()
            except OSError:
                return
            with peer, suppress(OSError):  # A client may connect without TLS.
                talk(peer if tls is None else tls.wrap_socket(peer, server_side=True))

    def talk(peer: socket.socket) -> None:
        with peer:
            peer.recv(4096)
            peer.sendall(said)
            peer.shutdown(socket.SHUT_WR)
            while peer.recv(4096):
                pass

    with socket.create_server(("127.0.0.1", 0)) as line:
        threading.Thread(target=serve, args=(line,), daemon=True).start()
        yield Listener("127.0.0.1", line.getsockname()[1], "fake", 1)
        line.shutdown(socket.SHUT_RDWR)
