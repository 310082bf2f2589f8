"""Calls to a listening socket without a valid token, in each protocol that a run's listeners use."""

from __future__ import annotations

import re
import socket
import ssl
import struct
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from urllib.parse import urlsplit

from schedbed.deploy.failures import RunFailed
from schedbed.deploy.security.listeners import Listener, addresses_of

ANSWER_S = 8.0
"""The longest wait for an answer: schedbed's listeners close a connection without a token after some seconds."""
ANSWER_BYTES = 8192

ANY_IPV4, ANY_IPV6 = "0.0.0.0", "::"

REFUSES = "refuses"
OPEN = "open"
UNKNOWN = "no answer that tells"

HTTP_CALL = b"GET / HTTP/1.1\r\nHost: stranger\r\nAuthorization: Bearer none\r\n\r\n"
FRAME = b'{"token": "none", "client": "stranger"}'
FRAMED_CALL = struct.pack("!I", len(FRAME)) + FRAME

UNAUTHENTICATED, NO_SUCH_METHOD = 16, 12
HTTP_REFUSAL = re.compile(rb"HTTP/1\.[01] 40[13] ")
GRPC_STATUS = re.compile(rb"grpc-status(?:\x01([0-9])|\x02([0-9]{2}))")
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_SETTINGS, _HEADERS, _DATA = 4, 1, 0
RAY_METHODS = (
    "InternalKVGcsService/InternalKVGet",
    "NodeManagerService/GetNodeStats",
    "CoreWorkerService/GetCoreWorkerStats",
    "ObjectManagerService/Pull",
)
"""For each Ray server (GCS, raylet, worker and object manager) a method to call."""


def grpc_status(listener: Listener, method: str) -> int | None:
    """Call a Ray server by gRPC without a token. Return the status, None if it does not speak gRPC.

    Three frames of plain HTTP/2 need no gRPC library. Raises OSError if the connection fails.
    """
    named = ((":method", "POST"), (":scheme", "http"), (":path", f"/ray.rpc.{method}"), (":authority", "ray"))
    fields = (*named, ("content-type", "application/grpc"), ("te", "trailers"))
    head = b"".join(_literal(name, value) for name, value in fields)
    call = _frame(_SETTINGS, 0, 0, b"") + _frame(_HEADERS, 4, 1, head) + _frame(_DATA, 1, 1, bytes(5))
    heard, _ = _heard(listener, _PREFACE + call, GRPC_STATUS)
    found = GRPC_STATUS.search(heard)
    return int(found[1] or found[2]) if found else None


def ray_refuses(listener: Listener) -> str:
    """Return `REFUSES` or `OPEN` for a Ray server, `UNKNOWN` if unclear. Raises OSError without a connection."""
    answers = set[int | None]()
    for method in RAY_METHODS:
        answers.add(grpc_status(listener, method))
        if answers - {NO_SUCH_METHOD}:
            break
    if answers == {NO_SUCH_METHOD}:
        return UNKNOWN
    return REFUSES if UNAUTHENTICATED in answers else UNKNOWN if None in answers else OPEN


def http_refuses(listener: Listener) -> str:
    """Return `REFUSES` (401 or 403) or `OPEN`, or `UNKNOWN` if not HTTP. Raises OSError without a connection."""
    heard, _ = _heard(listener, HTTP_CALL, re.compile(rb"\r\n"))
    if HTTP_REFUSAL.match(heard):
        return REFUSES
    return OPEN if heard.startswith(b"HTTP/") else UNKNOWN


def frames_refuse(listener: Listener) -> str:
    """Return whether a server of length-prefixed frames refuses a wrong token, by closing without an answer.

    Return `UNKNOWN` if it does neither. Raises OSError if the connection fails.
    """
    heard, ended = _heard(listener, FRAMED_CALL, re.compile(rb".", re.DOTALL))
    if heard:
        return OPEN
    return REFUSES if ended else UNKNOWN


def tls_refuses(listener: Listener) -> str:
    """Return whether a TLS server refuses a wrong token in an HTTP request and in a length-prefixed frame.

    The certificate is not checked, since a client without a token does not know the run's certificate
    authority. Raises OSError if the connection fails.
    """
    heard, _ = _heard_in_tls(listener, HTTP_CALL, re.compile(rb"\r\n"))
    if heard:
        return REFUSES if HTTP_REFUSAL.match(heard) else OPEN
    heard, ended = _heard_in_tls(listener, FRAMED_CALL, re.compile(rb".", re.DOTALL))
    return OPEN if heard else REFUSES if ended else UNKNOWN


def connect(listener: Listener) -> socket.socket:
    """Connect. Raises OSError if it fails, PermissionError if file modes forbid the use of a unix socket."""
    if listener.is_unix:
        line = socket.socket(socket.AF_UNIX)
        try:
            line.settimeout(ANSWER_S)
            line.connect(listener.address)
        except OSError:
            line.close()
            raise
        return line
    if listener.address == ANY_IPV6:
        with suppress(OSError):  # The listener may accept IPv4 only.
            return socket.create_connection(("::1", listener.port), ANSWER_S)
    address = "127.0.0.1" if listener.address in (ANY_IPV4, ANY_IPV6) else listener.address
    return socket.create_connection((address, listener.port), ANSWER_S)


def _heard(listener: Listener, said: bytes, enough: re.Pattern[bytes]) -> tuple[bytes, bool]:
    """Send `said`. Return the answer, and whether the server closed. Reading ends with `enough` or a timeout."""
    with connect(listener) as line:
        with suppress(ConnectionError):  # The server may have answered and closed already.
            line.sendall(said)
        return _heard_on(line, enough)


def _heard_in_tls(listener: Listener, said: bytes, enough: re.Pattern[bytes]) -> tuple[bytes, bool]:
    """Do the same over TLS. Return no bytes and False if the peer does not speak it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with connect(listener) as line:
        try:
            secure = context.wrap_socket(line)
        except OSError:
            return b"", False
        with secure:
            secure.sendall(said)
            return _heard_on(secure, enough)


def _heard_on(line: socket.socket, enough: re.Pattern[bytes]) -> tuple[bytes, bool]:
    heard = b""
    while not enough.search(heard) and len(heard) < ANSWER_BYTES:
        try:
            piece = line.recv(ANSWER_BYTES)
        except TimeoutError:
            return heard, False
        except (ConnectionError, ssl.SSLEOFError):
            return heard, True
        if not piece:
            return heard, True
        heard += piece
    return heard, False


def _literal(name: str, value: str) -> bytes:
    """Return a header field in HPACK, HTTP/2's encoding."""
    return b"\0" + b"".join(bytes([len(part)]) + part.encode() for part in (name, value))


def _frame(kind: int, flags: int, stream: int, body: bytes) -> bytes:
    """Return an HTTP/2 frame."""
    return struct.pack("!I", len(body))[1:] + bytes((kind, flags)) + struct.pack("!I", stream) + body


# Checks at the start of a run that none of its listening sockets is open to strangers.
#
# Listeners must have addresses that are loopback or requested by the user, and Ray must require a token.


def check_listeners(found: Iterable[Listener], asked_for: Collection[str] = ()) -> None:
    """Raise RunFailed if an address is neither loopback nor that of a host the user asked for."""
    addresses = {address for name in asked_for for address in addresses_of(name)}
    for listener in found:
        if not listener.is_loopback and listener.address not in addresses:
            expected = f"127.0.0.1 or {', '.join(sorted(asked_for))}" if asked_for else "127.0.0.1"
            raise RunFailed(f"{listener} listens where others reach it, expected {expected} only")


def without_guarded_ray(found: Iterable[Listener]) -> list[Listener]:
    """Leave out Ray's listeners that refuse calls without a token, unless they are on loopback.

    Ray chooses its addresses itself. On several hosts its workers listen on all interfaces.
    """
    return [listener for listener in found if listener.is_loopback or not _is_guarded_ray(listener)]


def check_ray(gcs: str) -> None:
    """Raise RunFailed if the Ray server (GCS) at `gcs` does not answer or accepts calls without a token."""
    host, _, port = gcs.rpartition(":")
    listener = Listener(host.strip("[]"), int(port), "Ray's GCS", 0)
    try:
        answer = ray_refuses(listener)
    except OSError as error:
        raise RunFailed(f"Ray's GCS at {gcs} does not answer: {error.strerror or error}") from None
    if answer != REFUSES:
        raise RunFailed(
            f"Ray's GCS at {gcs} takes calls without a token, expected a Ray that was started with RAY_AUTH_MODE=token"
        )


def ports_of(agents: Mapping[str, str]) -> dict[int, str]:
    """Return each agent's name by TCP port."""
    return {urlsplit(url).port or 0: f"agent {node}" for node, url in agents.items()}


def _is_guarded_ray(listener: Listener) -> bool:
    try:
        return ray_refuses(listener) == REFUSES
    except OSError:
        return False
