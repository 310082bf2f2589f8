"""The token check of HTTP servers over real sockets: every server answers 401 to anything but the token."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from unittest.mock import AsyncMock

import pytest
from aiohttp import web
from hypothesis import example, given, settings
from hypothesis import strategies as st

from schedbed.cluster.agent import http_server
from schedbed.cluster.clock import RunClock
from schedbed.cluster.spec import BlockSettings
from schedbed.cluster.webhdfs.rest_call import BlockStore
from schedbed.cluster.webhdfs.webhdfs import WebHdfs
from schedbed.cluster.wire.http_gate import HEAD_BYTES, HttpGate, Refusal
from schedbed.cluster.wire.port_range import listen_at
from schedbed.cluster.wire.unauthenticated_peers import UnauthenticatedPeers
from schedbed.deploy.service.api import Api
from schedbed.deploy.service.users.user_book import UserBook

TOKEN = "5ecret"
RIGHT = b"Bearer " + TOKEN.encode()
REFUSAL = Refusal("text/plain", b"no")

Line = tuple[asyncio.StreamReader, asyncio.StreamWriter]
BAD_TOKENS = {
    "missing": None,
    "empty": b"",
    "scheme only": b"Bearer ",
    "no scheme": TOKEN.encode(),
    "wrong": b"Bearer wrong",
    "more": RIGHT + b"x",
    "less": RIGHT[:-1],
    "Latin-1": b"Bearer t\xf6ken",
    "UTF-8": "Bearer tök€n".encode(),
    "no text": b"Bearer \xff\xfe\x80",
    "a zero": b"Bearer \x00" + TOKEN.encode(),
    "control characters": b"Bearer \x01\x7f\t\x1b",
    "bare line feed": b"Bearer x\nAuthorization: Bearer x",
    "long": b"Bearer " + b"x" * 9_000,
    "longer than is read": b"Bearer " + b"x" * HEAD_BYTES,
    "much longer": b"Bearer " + b"x" * 500_000,
}


class Server:
    """A web application that records the bodies of its requests, behind an `HttpGate`."""

    def __init__(self, **unauthenticated: Any) -> None:
        self.heard: list[bytes] = []
        self.gate = HttpGate(
            TOKEN, REFUSAL, parameter="t", unauthenticated=UnauthenticatedPeers(TOKEN, **unauthenticated)
        )

    async def _hear(self, request: web.Request) -> web.Response:
        self.heard.append(await request.read())
        return web.Response(text="yes")

    async def __aenter__(self) -> Server:
        app = web.Application(middlewares=[self.gate.middleware()], client_max_size=2**24)
        app.router.add_route("*", "/{any:.*}", self._hear)
        self._runner = await self.gate.serve(app, listen_at("127.0.0.1"))
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def line(self) -> Line:
        return await asyncio.open_connection("127.0.0.1", self.port)


def run_story(story: Callable[[Server], Awaitable[None]], **unauthenticated: Any) -> None:
    async def told() -> None:
        async with Server(**unauthenticated) as server:
            await story(server)

    asyncio.run(told())


def head(authorization: bytes | None, target: bytes = b"/", more: bytes = b"") -> bytes:
    shown = b"" if authorization is None else b"Authorization: " + authorization + b"\r\n"
    return b"GET " + target + b" HTTP/1.1\r\nHost: here\r\n" + shown + more + b"\r\n"


async def answer_to(port: int, data: bytes) -> bytes:
    """Send `data` to a server, and return all bytes received until the server closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    said = await reader.read()
    writer.close()
    return said


async def status(line: Line) -> int:
    """Read one answer from a connection, and return its status code."""
    read = await line[0].readuntil(b"\r\n\r\n")
    await line[0].readexactly(len(b"yes") if b"200 OK" in read else len(REFUSAL.body))
    return int(read.split(b" ")[1])


# ------------------------------------------------------------------------------------------------- bad tokens


@settings(max_examples=30, deadline=None)
@given(st.lists(st.binary(max_size=60), min_size=1, max_size=20))
@example([b"Bearer " + b"\xed\xa0\x80"])
def test_whatever_is_shown_instead_of_the_token_is_401(shown: list[bytes]) -> None:
    async def story(server: Server) -> None:
        for each in shown:
            said = await answer_to(server.port, head(b"Bearer " + each))
            assert said.startswith(b"HTTP/1.1 401 "), each
            said = await answer_to(server.port, head(None, b"/?t=" + each.replace(b" ", b"")))
            assert said.startswith(b"HTTP/1.1 401 "), each
        assert server.heard == []

    run_story(story)


@settings(max_examples=30, deadline=None)
@given(st.binary(min_size=1, max_size=200))
def test_what_is_no_http_is_401_too(nonsense: bytes) -> None:
    async def story(server: Server) -> None:
        assert (await answer_to(server.port, nonsense + b"\r\n\r\n")).startswith(b"HTTP/1.1 401 ")
        assert server.heard == []

    run_story(story)


async def _api(use: Callable[[int], Awaitable[None]]) -> None:
    service: Any = AsyncMock()
    service.book = UserBook()
    with Api(service, TOKEN) as api:
        await use(int(api.url.rpartition(":")[2]))
    assert service.mock_calls == []


async def _webhdfs(use: Callable[[int], Awaitable[None]]) -> None:
    names: Any = AsyncMock()
    runner = await WebHdfs(BlockStore(names, TOKEN, BlockSettings(), RunClock(0.0))).serve()
    await use(runner.addresses[0][1])
    await runner.cleanup()
    assert names.mock_calls == []


async def _agent(use: Callable[[int], Awaitable[None]]) -> None:
    parts: list[Any] = [AsyncMock() for _ in range(5)]
    gate = http_server.make_gate(TOKEN)
    runner = await gate.serve(http_server.make_app(gate, *parts), listen_at("127.0.0.1"))
    await use(runner.addresses[0][1])
    await runner.cleanup()
    assert not any(part.mock_calls for part in parts)


@pytest.mark.parametrize("shown", BAD_TOKENS.values(), ids=BAD_TOKENS)
@pytest.mark.parametrize("serve", [_api, _webhdfs, _agent])
def test_every_server_answers_a_bad_token_with_401(serve: Any, shown: bytes | None) -> None:
    async def use(port: int) -> None:
        for target in (b"/status", b"/webhdfs/v1/?op=LISTSTATUS", b"/peers", b"/nowhere"):
            said = await answer_to(port, head(shown, target))
            assert said.startswith(b"HTTP/1.1 401 "), said[:200]

    asyncio.run(serve(use))


def test_a_bad_token_in_a_later_request_ends_the_connection() -> None:
    async def story(server: Server) -> None:
        for shown in (b"Bearer wrong", b"Bearer \xff", None):
            line = await server.line()
            line[1].write(head(RIGHT))
            assert await status(line) == 200
            line[1].write(head(shown))
            assert await status(line) == 401
            assert await line[0].read() == b""
            line[1].close()
        assert len(server.heard) == 3

    run_story(story)


def test_the_answer_is_heard_by_one_who_sends_a_long_body() -> None:
    async def story(server: Server) -> None:
        more = b"Content-Length: 5000000\r\n"
        said = await answer_to(server.port, head(b"Bearer wrong", more=more) + bytes(5_000_000))
        assert said.startswith(b"HTTP/1.1 401 ") and said.endswith(REFUSAL.body)

    run_story(story)


# ---------------------------------------------------------------------------------------- the token is shown


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 260), max_size=6), st.binary(max_size=100), st.booleans())
def test_the_token_opens_however_the_request_is_cut(cuts: Sequence[int], body: bytes, in_query: bool) -> None:
    async def story(server: Server) -> None:
        shown, target = (None, b"/a?b=c&t=" + TOKEN.encode()) if in_query else (RIGHT, b"/a")
        whole = head(shown, target, more=b"Content-Length: %d\r\n" % len(body)) + body
        line = await server.line()
        for first, last in zip([0, *sorted(cuts)], [*sorted(cuts), len(whole)], strict=True):
            line[1].write(whole[first:last])
            await line[1].drain()
            await asyncio.sleep(0)
        assert await status(line) == 200
        line[1].write(head(RIGHT))
        assert await status(line) == 200
        assert server.heard == [body, b""]
        line[1].close()

    run_story(story)


# --------------------------------------------------------------------------------------------- slow and many


@pytest.mark.parametrize("sent", [b"", b"GET / HT", head(RIGHT)[:-2]])
def test_half_a_header_is_not_waited_for(sent: bytes) -> None:
    async def story(server: Server) -> None:
        assert await answer_to(server.port, sent) == b""
        assert len(server.gate.unauthenticated) == 0

    run_story(story, patience_s=0.05)


def test_one_who_has_shown_the_token_may_take_his_time() -> None:
    async def story(server: Server) -> None:
        line = await server.line()
        line[1].write(head(RIGHT))
        assert await status(line) == 200
        assert await answer_to(server.port, b"") == b""  # another one's patience is over meanwhile
        line[1].write(head(RIGHT))
        assert await status(line) == 200
        line[1].close()

    run_story(story, patience_s=0.05)


def test_silent_peers_do_not_keep_out_those_who_speak() -> None:
    async def story(server: Server) -> None:
        silent = [await server.line() for _ in range(5)]
        for reader, _ in silent[:2]:
            assert await reader.read() == b""
        assert len(server.gate.unauthenticated) == 3
        line = await server.line()
        line[1].write(head(RIGHT))
        assert await status(line) == 200
        assert len(server.gate.unauthenticated) == 2, "the newcomer took the place of the third, and left it"
        for _, writer in (*silent, line):
            writer.close()

    run_story(story, places=3)


def test_the_end_of_a_server_is_the_end_of_those_who_wait() -> None:
    async def story(server: Server) -> None:
        reader, writer = await server.line()
        while not len(server.gate.unauthenticated):
            await asyncio.sleep(0)
        await server._runner.cleanup()
        assert await reader.read() == b""
        writer.close()

    run_story(story)
