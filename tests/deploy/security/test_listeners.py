"""Tests that listening sockets are found with address and process, and that those outside the rules are
named.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from schedbed.deploy.failures import RunFailed
from schedbed.deploy.security.listeners import Listener, listeners_of
from schedbed.deploy.security.strange_calls import (
    OPEN,
    REFUSES,
    UNKNOWN,
    check_listeners,
    check_ray,
    frames_refuse,
    http_refuses,
    ports_of,
    ray_refuses,
    without_guarded_ray,
)
from tests.harness.fake_server import answering


def mine() -> set[Listener]:
    return set(listeners_of(os.getpid()))


@pytest.mark.parametrize(
    ("family", "bound", "seen"),
    [
        (socket.AF_INET, "127.0.0.1", "127.0.0.1"),
        (socket.AF_INET, "0.0.0.0", "0.0.0.0"),
        (socket.AF_INET6, "::1", "::1"),
        (socket.AF_INET6, "::", "::"),
        (socket.AF_INET6, "::ffff:127.0.0.1", "127.0.0.1"),
    ],
)
def test_a_listening_socket_is_found_while_it_listens(
    family: socket.AddressFamily, bound: str, seen: str
) -> None:
    before = mine()
    with socket.socket(family) as line:
        try:
            line.bind((bound, 0))
        except OSError:
            pytest.skip(f"{bound}: this host has no such address")
        assert mine() == before, "a socket that is only bound does not listen"
        line.listen()
        (found,) = mine() - before
        assert (found.address, found.port, found.pid) == (seen, line.getsockname()[1], os.getpid())
        assert found.is_loopback == (bound not in ("0.0.0.0", "::"))
    assert mine() == before


def test_unix_sockets_are_found_too(tmp_path: Path) -> None:
    before = mine()
    path = str(tmp_path / "a socket")
    with socket.socket(socket.AF_UNIX) as line:
        line.bind(path)
        line.listen()
        with socket.socket(socket.AF_UNIX) as other:
            other.connect(path)
            (found,) = mine() - before
    assert found.is_unix and found.address == path and found.is_loopback


CHILD = """
import socket, sys
line = socket.create_server(("127.0.0.1", 0))
print(line.getsockname()[1], flush=True)
sys.stdin.read()
"""


def test_children_are_looked_at_and_strangers_are_not() -> None:
    with subprocess.Popen([sys.executable, "-c", CHILD], stdin=-1, stdout=-1) as child:
        assert child.stdout is not None
        port = int(child.stdout.readline())
        (found,) = [each for each in mine() if each.port == port]
        assert found.pid == child.pid and found.process.startswith("python")
        assert [each.port for each in listeners_of(child.pid)] == [port]
        assert child.stdin is not None
        child.stdin.close()
    assert listeners_of(child.pid) == []


def test_a_listener_that_hides_is_known_by_its_port() -> None:
    with subprocess.Popen([sys.executable, "-c", CHILD], stdin=-1, stdout=-1) as child:
        assert child.stdout is not None and child.stdin is not None
        port = int(child.stdout.readline())
        known = ports_of({"n1": f"http://127.0.0.1:{port}"})
        root = _ended()
        assert listeners_of(root) == []
        assert listeners_of(root, known) == [Listener("127.0.0.1", port, "agent n1", 0)]
        child.stdin.close()


def _ended() -> int:
    """Return the id of a process that has ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
        return process.pid


# ------------------------------------------------------------------------------------------------- the check


def listener(address: str, port: int = 1) -> Listener:
    return Listener(address, port, "agent n1", 7)


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.9.1", "::1", "/run/a.socket"])
def test_loopback_is_always_right(address: str) -> None:
    check_listeners([listener(address, 0 if address.startswith("/") else 1)])


def test_the_address_that_was_asked_for_is_right_and_no_other() -> None:
    check_listeners([listener("192.0.2.1")], ["192.0.2.1"])
    with pytest.raises(RunFailed, match=r"expected 127.0.0.1 or 192.0.2.1 only$"):
        check_listeners([listener("127.0.0.1"), listener("192.0.2.2")], ["192.0.2.1"])


@pytest.mark.parametrize("bound", ["0.0.0.0", "::"])
def test_what_is_open_to_all_is_named_in_one_line(bound: str) -> None:
    before = mine()
    family = socket.AF_INET6 if ":" in bound else socket.AF_INET
    with closing(socket.create_server((bound, 0), family=family)) as line:
        threading.Thread(target=_hang_up, args=(line,), daemon=True).start()
        (found,) = mine() - before
        with pytest.raises(RunFailed) as raised:
            check_listeners(without_guarded_ray([found]))
    said = str(raised.value)
    assert found.where in said and f"process {os.getpid()}" in said and "\n" not in said


def _hang_up(line: socket.socket) -> None:
    for _ in range(10):
        try:
            line.accept()[0].close()
        except OSError:
            return


# ------------------------------------------------------------------------------------------- a stranger's calls

HTTP2 = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (HTTP2 + b"..\x00\x0bgrpc-status\x0216\x00\x0cgrpc-message", REFUSES),
        (HTTP2 + b"..\x00\x0bgrpc-status\x010", OPEN),
        (HTTP2 + b"..\x00\x0bgrpc-status\x0213", OPEN),
        (HTTP2 + b"..\x00\x0bgrpc-status\x0212", UNKNOWN),
        (b"HTTP/1.1 400 Bad Request\r\n", UNKNOWN),
        (b"", UNKNOWN),
    ],
)
def test_what_a_server_of_ray_says_is_understood(said: bytes, expected: str) -> None:
    with answering(said) as server:
        assert ray_refuses(server) == expected
        if expected == REFUSES:
            check_ray(server.where)
        else:
            with pytest.raises(RunFailed, match="takes calls without a token"):
                check_ray(server.where)


def test_a_gcs_that_is_not_there_is_told_in_a_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as line:
        where = f"127.0.0.1:{line.getsockname()[1]}"
    with pytest.raises(RunFailed, match=rf"Ray's GCS at {where} does not answer"):
        check_ray(where)


@pytest.mark.parametrize(
    ("said", "http", "frames"),
    [
        (b"HTTP/1.1 401 Unauthorized\r\n\r\n", REFUSES, OPEN),
        (b"HTTP/1.1 403 Forbidden\r\n\r\n", REFUSES, OPEN),
        (b"HTTP/1.1 200 OK\r\n\r\n", OPEN, OPEN),
        (b"HTTP/1.1 404 Not Found\r\n\r\n", OPEN, OPEN),
        (b"", UNKNOWN, REFUSES),
    ],
)
def test_what_our_servers_say_is_understood(said: bytes, http: str, frames: str) -> None:
    with answering(said) as server:
        assert (http_refuses(server), frames_refuse(server)) == (http, frames)
