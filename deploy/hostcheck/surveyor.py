"""The Ray actor that examines one host for `schedbed hosts check`."""

from __future__ import annotations

import contextlib
import hmac
import platform
import socket
import threading
import time
from typing import Any

from schedbed.cluster.clock import RunClock
from schedbed.cluster.core_trial import CoreTrial
from schedbed.cluster.machines.host_abilities import docker_why, usable_cores
from schedbed.cluster.wire.port_range import PortRange, listen_at
from schedbed.tasks.errors import BadInput

PIECE_BYTES = 2**18
SEND_BYTES = 64 * 2**20
SEND_S = 0.5
"""A transfer ends after SEND_BYTES bytes or SEND_S seconds, whichever comes first."""
REACH_S = 3.0
TOKEN_BYTES = 64
PLACES = 64
"""Most connections that a sink serves at the same time."""


class Surveyor:
    """A Ray actor that examines the host on which it runs, and measures transfers to other hosts."""

    def __init__(self) -> None:
        self._sink: TransferSink | None = None

    def look(self) -> dict[str, Any]:
        """Return the host's cores and Python version, and the problems of its container engine and image.

        The keys are `cores`, `python`, `engine_why` and `image_why`. The last two are "" if there is no
        problem.
        """
        engine = docker_why()
        return {
            "cores": usable_cores(),
            "python": platform.python_version(),
            "engine_why": engine,
            "image_why": "" if engine else image_why(),
        }

    def time_of_day(self) -> float:
        """Return the Unix time in seconds by the host's clock."""
        return RunClock.host_time_s()

    def trial_s(self) -> float:
        """Return the CPU seconds that a benchmark of one core takes on this host."""
        return CoreTrial().least_s()

    def free_ports(self, address: str, ports: PortRange) -> int:
        """Return how many ports of the range `ports` are free at the host's address."""
        free = 0
        for port in ports:
            with contextlib.suppress(OSError):
                listen_at(address, port).close()
                free += 1
        return free

    def listen(self, address: str, ports: PortRange | None, token: str) -> int:
        """Accept test transfers that present `token` from now on, and return the port to send them to.

        Raises BadInput if no port of the range is free.
        """
        self._sink = TransferSink(listen_at(address, ports=ports), token)
        return self._sink.port

    def send(self, address: str, port: int, token: str) -> float | str:
        """Send test data to the server of another host.

        Return the bytes per second, or the reason for a failure. `token` is the token that this server
        expects.
        """
        try:
            return transfer(address, port, token)
        except OSError as error:
            return error.strerror or str(error)

    def close(self) -> None:
        """Stop the server for test transfers."""
        if self._sink is not None:
            self._sink.close()


class TransferSink:
    """A server that receives test transfers with the right token, and answers with the number of bytes
    received.
    """

    def __init__(self, listening: socket.socket, token: str) -> None:
        self._listening = listening
        self._token = token.encode()
        self._places = threading.BoundedSemaphore(PLACES)
        self.port = int(listening.getsockname()[1])
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        """Stop accepting transfers, and close the port."""
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                line, _ = self._listening.accept()
                if self._places.acquire(blocking=False):
                    threading.Thread(target=self._hear, args=(line,), daemon=True).start()
                else:
                    line.close()

    def _hear(self, line: socket.socket) -> None:
        try:
            self._take(line)
        finally:
            self._places.release()

    def _take(self, line: socket.socket) -> None:
        with line, contextlib.suppress(OSError):
            line.settimeout(REACH_S + SEND_S)
            shown = line.recv(TOKEN_BYTES, socket.MSG_WAITALL)
            if not hmac.compare_digest(shown, self._token):
                return
            taken, piece = 0, bytearray(PIECE_BYTES)
            while count := line.recv_into(piece):
                taken += count
            line.sendall(taken.to_bytes(8, "big"))


def transfer(address: str, port: int, token: str) -> float:
    """Send test data to a `TransferSink` that expects `token`, and return the bytes per second.

    The time is measured until the sink has received all data. Raises OSError if the transfer fails.
    """
    piece = bytes(PIECE_BYTES)
    with socket.create_connection((address, port), REACH_S) as line:
        line.settimeout(REACH_S)
        line.sendall(token.encode())
        began_s, sent = time.monotonic(), 0
        while sent < SEND_BYTES and time.monotonic() < began_s + SEND_S:
            line.sendall(piece)
            sent += len(piece)
        line.shutdown(socket.SHUT_WR)
        answer = line.recv(8, socket.MSG_WAITALL)
        if int.from_bytes(answer, "big") != sent:
            raise ConnectionError("the other end did not take all bytes")
        return sent / (time.monotonic() - began_s)


def image_why() -> str:
    """Return the reason why nodes in containers do not work with this host's engine, or "" if they work."""
    try:
        from schedbed.cluster.machines.docker.housekeeping import check_engine

        check_engine()
    except ImportError as error:
        return f"{error}; pip install schedbed there"
    except BadInput as error:
        return str(error).removeprefix("--machines docker: ")
    return ""
