"""Tests that a foreign process, of this user or another, receives nothing from the real servers."""

from __future__ import annotations

import asyncio
import os
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest

from schedbed.cluster.masters import NameNodeDoor
from schedbed.cluster.wire.certificates import make_certificates
from schedbed.cluster.wire.endpoint import Endpoint
from schedbed.cluster.wire.server_end import ServerEnd
from schedbed.deploy.security import strange_calls
from schedbed.deploy.security.doctor_table import TriedListener, try_listeners
from schedbed.deploy.security.listeners import Listener
from schedbed.deploy.security.strange_calls import OPEN, REFUSES, UNKNOWN
from schedbed.deploy.security.stranger import (
    NOBODY,
    SAME_USER,
    UNREACHABLE,
    ClientAnswer,
    answer_of,
    try_all,
)
from schedbed.deploy.service.api import Api
from schedbed.deploy.service.users.user_book import UserBook
from tests.harness.fake_server import answering

TOKEN = "s3cret"
CERTIFICATES = make_certificates()
as_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root: only it can be another user")


@contextmanager
def served(place: Endpoint) -> Iterator[Endpoint]:
    """Run a server of the frame protocol in a thread; yield the address at which it listens."""
    loop = asyncio.new_event_loop()
    server = ServerEnd(NameNodeDoor, AsyncMock())
    found = loop.run_until_complete(server.listen(place))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield found
    finally:
        asyncio.run_coroutine_threadsafe(server.close(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@contextmanager
def all_of_ours(folder: Path) -> Iterator[dict[str, Listener]]:
    """Run the API and servers of the frame protocol on a unix socket and on TCP; yield them by name."""
    folder.chmod(0o700)
    service: Any = AsyncMock()
    service.book = UserBook()
    on_tcp = Endpoint(host="127.0.0.1", token=TOKEN)
    with (
        Api(service, TOKEN) as api,
        served(Endpoint(path=str(folder / "m.socket"), token=TOKEN)) as unix,
        served(on_tcp) as tcp,
    ):
        yield {
            "HTTP": Listener("127.0.0.1", int(api.url.rpartition(":")[2]), "api", 1),
            "unix": Listener(unix.path, 0, "master", 1),
            "frames": Listener(tcp.host, tcp.port, "master", 1),
        }


def test_ours_refuse_a_stranger_of_the_same_user(tmp_path: Path) -> None:
    with all_of_ours(tmp_path) as ours:
        said = dict(zip(ours, try_all(list(ours.values())), strict=True))
    assert {name: each.answer for name, each in said.items()} == dict.fromkeys(ours, REFUSES)
    assert (said["HTTP"].way, said["frames"].way) == ("HTTP", "frames")


@as_root
def test_ours_refuse_another_user_who_does_not_even_reach_unix_sockets(tmp_path: Path) -> None:
    with all_of_ours(tmp_path) as ours:
        said = dict(zip(ours, try_all(list(ours.values()), NOBODY), strict=True))
    expected = {"HTTP": REFUSES, "frames": REFUSES, "unix": UNREACHABLE}
    assert {name: each.answer for name, each in said.items()} == expected


@as_root
def test_a_unix_socket_that_others_may_use_is_found() -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        with talking(Path(folder) / "s", 0o666) as listener:
            (said,) = try_all([listener], NOBODY)
        with talking(Path(folder) / "s", 0o600) as listener:
            (kept_out,) = try_all([listener], NOBODY)
    assert said.answer == OPEN and not said.is_right
    assert kept_out.answer == UNREACHABLE


def test_a_unix_socket_of_another_kind_is_for_the_same_user(tmp_path: Path) -> None:
    with talking(tmp_path / "s", 0o600) as listener:
        assert answer_of(listener, is_owner=True).answer == SAME_USER
        assert answer_of(listener, is_owner=False).answer == OPEN
    assert answer_of(listener, is_owner=True).answer == UNREACHABLE


@contextmanager
def talking(path: Path, mode: int) -> Iterator[Listener]:
    """Run a server on a unix socket that greets every client without authentication; yield the server.

    `mode` has the permission bits of the socket's file.
    """

    def talk() -> None:
        while True:
            try:
                peer, _ = line.accept()
            except OSError:
                return
            with peer, suppress(OSError):
                peer.sendall(b"hello")

    with socket.socket(socket.AF_UNIX) as line:
        line.bind(str(path))
        path.chmod(mode)
        line.listen(8)
        thread = threading.Thread(target=talk)
        thread.start()
        try:
            yield Listener(str(path), 0, "raylet", 1)
        finally:
            line.shutdown(socket.SHUT_RDWR)
            thread.join()
            path.unlink()


def test_servers_with_tls_are_known_as_such_and_an_open_one_is_found(tmp_path: Path) -> None:
    with served(Endpoint(host="127.0.0.2", token=TOKEN, tls=CERTIFICATES)) as place:
        listener = Listener(place.host, place.port, "master", 1)
        (said,) = try_all([listener])
        (clear,) = try_all([Listener(place.host, place.port, "agent n1", 1)])
    assert said == clear == ClientAnswer("TLS", REFUSES)
    with answering(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", CERTIFICATES.serving()) as server:
        (said,) = try_all([Listener("127.0.0.1", server.port, "open", 1)])
    assert said == ClientAnswer("TLS", OPEN) and not said.is_right


@pytest.mark.parametrize(
    ("way", "words"), [("TLS", "not on loopback, TLS"), ("HTTP", "not on loopback, in clear")]
)
def test_the_table_says_of_a_listener_that_others_reach_whether_it_speaks_tls(way: str, words: str) -> None:
    tried = TriedListener(Listener("10.0.0.1", 7, "agent n1", 1), ClientAnswer(way, REFUSES), None)
    assert words in tried.protection and words in tried.row()[3]


def test_a_silent_listener_is_not_taken_for_one_that_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strange_calls, "ANSWER_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as line:
        said = answer_of(Listener("127.0.0.1", line.getsockname()[1], "silent", 1), is_owner=True)
    assert said.answer == UNKNOWN and not said.is_right


def test_an_open_server_of_this_process_is_found_and_marked() -> None:
    with answering(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") as server:
        (tried,) = [each for each in try_listeners({}) if each.listener.port == server.port]
    assert tried.own.answer == OPEN and not tried.is_right
    assert f"127.0.0.1:{server.port}" in tried.row() and OPEN in tried.row()
