"""HTTP requests from an attempt to agents, with persistent connections, the run's token, and the node's
network budget.
"""

from __future__ import annotations

import errno
import http.client
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from schedbed.tasks.blockfile import READ_BYTES
from schedbed.tasks.context import NodeContext
from schedbed.tasks.node_client.server_trust import trusting
from schedbed.tasks.pacing import LINK_BUCKET, Budget, socket_bytes
from schedbed.tasks.specs import NodeId

AGENT_TIMEOUT_S = 75.0  # No byte from the own agent, which waits up to 60 s for the masters.
PEER_TIMEOUT_S = 20.0  # No byte from another agent.
CONNECT_S = 5.0  # Limit for connecting, since a lost host does not refuse.
PACED_PIECE_BYTES = 128 * 1024  # Largest piece read from a socket before it is charged.


Charge = Callable[[int], None]
"""Function that charges a number of bytes to a budget, and waits until they are paid."""


class Refused(OSError):
    """Raised if an agent answers with an error. `status` is the HTTP status."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class _Connection(http.client.HTTPConnection):
    """An HTTP connection with the kernel's receive buffer limited to `buffer_bytes` (0: the default)."""

    def __init__(
        self, host: str, port: int | None, timeout_s: float, buffer_bytes: int, tls: ssl.SSLContext | None
    ) -> None:
        super().__init__(host, port, timeout=CONNECT_S)
        self._tls = tls
        self._timeout_s = timeout_s
        self._buffer_bytes = buffer_bytes

    def connect(self) -> None:
        """Connect, limit the receive buffer, set the timeout for transfers, and perform the TLS handshake."""
        super().connect()
        self.sock.settimeout(self._timeout_s)
        if self._buffer_bytes:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._buffer_bytes)
        if self._tls is not None:
            self.sock = self._tls.wrap_socket(self.sock)


class AgentLink:
    """A client for agents, with a persistent connection for each thread and agent. All errors are OSError."""

    def __init__(self, context: NodeContext) -> None:
        self.context = context
        self.peers = dict(context.peers)
        self.budget = Budget.open(context.budget) if context.budget else None
        self._shared_disk = Budget.open(context.shared_disk) if context.shared_disk else None
        self.settle_cpu: Callable[[], None] | None = None  # Set if the process limits its own CPU use.
        self._local = threading.local()

    def stream(self, name: str) -> Charge:
        """Return a function that charges bytes to a budget ("disk", "rx", ...) and sleeps by its rate.

        Disk bytes are also charged to a disk that the node shares.
        """
        if self.budget is None:
            return lambda amount_bytes: None
        shared = self._shared_disk if name == "disk" else None
        stream = self.budget.stream(name, None if shared is None else shared.stream(LINK_BUCKET))
        return lambda amount_bytes: stream.take(amount_bytes, self._settle)

    def _settle(self) -> None:
        """Charge the CPU time so far before a transfer waits, in the main thread only."""
        if self.settle_cpu is not None and threading.current_thread() is threading.main_thread():
            self.settle_cpu()

    def request_json(self, verb: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Send a small request to the own agent and return the JSON. Raises Refused."""
        url = self.context.agent_url
        response = self.send(url, verb, path, None if body is None else json.dumps(body).encode())
        return json.loads(self.finish(url, response))

    def send(
        self,
        url: str,
        verb: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> http.client.HTTPResponse:
        """Send a request, once more if the agent has closed a persistent connection. The body is unread."""
        for fresh in (False, True):
            connection = self.connection(url, fresh)
            reused = connection.sock is not None
            try:
                connection.request(verb, path, body, {**self.headers(), **(headers or {})})
                return connection.getresponse()
            except (http.client.HTTPException, OSError) as error:
                self.drop(url)
                if not reused or isinstance(error, TimeoutError):
                    raise _as_oserror(error) from error
        raise AssertionError("unreachable: a fresh connection either answers or raises")

    def finish(self, url: str, response: http.client.HTTPResponse) -> bytes:
        """Return the remaining body. Raises OSError (ENOSPC) for status 507, a full disk, or Refused."""
        try:
            body = response.read()
        except (http.client.HTTPException, OSError) as error:
            self.drop(url)
            raise _as_oserror(error) from error
        if response.status == 507:
            raise OSError(errno.ENOSPC, "disk full")
        if response.status >= 300:
            text = body[:300].decode(errors="replace").strip()
            raise Refused(response.status, f"{response.status} {text or response.reason}")
        return body

    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.context.token}", "X-Node": self.context.node}

    def connection(self, url: str, fresh: bool = False) -> http.client.HTTPConnection:
        """Return the current thread's connection to the agent at `url`. With `fresh`, a new connection replaces it."""
        kept: dict[str, http.client.HTTPConnection] = self._local.__dict__.setdefault("kept", {})
        if fresh or url not in kept:
            self.drop(url)
            kept[url] = self.open(url)
        return kept[url]

    def open(self, url: str) -> http.client.HTTPConnection:
        """Return a new connection that is not shared. Raises OSError if TLS needs an https URL."""
        where = urlsplit(url)
        assert where.hostname is not None
        timeout_s = AGENT_TIMEOUT_S if url == self.context.agent_url else PEER_TIMEOUT_S
        buffer_bytes = socket_bytes(self.budget.rate("rx")) if self.budget is not None else 0
        authority = self.context.authority
        if authority and where.scheme != "https":
            raise OSError(f"{url}: expected https, as the run has TLS")
        tls = trusting(authority) if authority else None
        return _Connection(where.hostname, where.port, timeout_s, buffer_bytes, tls)

    def drop(self, url: str) -> None:
        """Close the current thread's connection to the agent at `url`, if there is one."""
        connection = self._local.__dict__.setdefault("kept", {}).pop(url, None)
        if connection is not None:
            connection.close()

    def url_of(self, node: NodeId) -> str:
        """Return the URL of a node's agent, from the own agent if unknown. Raises Refused."""
        if node not in self.peers:
            self.refresh_peers()
        if node not in self.peers:
            raise Refused(404, f"no agent is known for {node}")
        return self.peers[node]

    def forget(self, node: NodeId) -> None:
        """Forget the URL of a node that did not answer, as it may have restarted at another."""
        if node != self.context.node:
            self.peers.pop(node, None)

    def refresh_peers(self) -> None:
        """Request all agents' current URLs from the own agent."""
        answer = self.request_json("GET", "/peers")
        self.peers.update(answer.get("peers", answer))

    def receiving(self, node: NodeId) -> Charge:
        """Return a function that charges bytes from another node to `rx`. The transfer's time counts from this call."""
        return self.stream("rx") if node != self.context.node else lambda amount_bytes: None

    def receive(
        self, url: str, node: NodeId, response: http.client.HTTPResponse, charge: Charge
    ) -> Iterator[bytearray]:
        """Yield a body in pieces, each charged (see `receiving`). Raises OSError if it ends early."""
        left = response.length or 0
        while left > 0:
            piece = bytearray(min(left, self._piece_bytes(node)))
            self._fill(url, node, response, memoryview(piece))
            charge(len(piece))
            left -= len(piece)
            yield piece

    def receive_all(
        self, url: str, node: NodeId, response: http.client.HTTPResponse, charge: Charge
    ) -> bytearray:
        """Return a body in one buffer, charged by pieces. Raises OSError if it ends early."""
        data = bytearray(response.length or 0)
        view = memoryview(data)
        for low in range(0, len(data), self._piece_bytes(node)):
            piece = view[low : low + self._piece_bytes(node)]
            self._fill(url, node, response, piece)
            charge(len(piece))
        return data

    def _piece_bytes(self, node: NodeId) -> int:
        return READ_BYTES if self.budget is None or node == self.context.node else PACED_PIECE_BYTES

    def _fill(self, url: str, node: NodeId, response: http.client.HTTPResponse, view: memoryview) -> None:
        try:
            got = response.readinto(view)
        except (http.client.HTTPException, OSError) as error:
            self.drop(url)
            raise _as_oserror(error) from error
        if got < len(view):
            self.drop(url)
            raise OSError(f"{node}: the connection ended early")


def _as_oserror(error: Exception) -> OSError:
    return error if isinstance(error, OSError) else OSError(f"{type(error).__name__}: {error}")
