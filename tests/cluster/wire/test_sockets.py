"""The socket protocol of two processes: the token first, bounded frames, repeated calls, typed values."""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import pytest

from schedbed.cluster.masters import MasterGone
from schedbed.cluster.wire import server_end
from schedbed.cluster.wire.client_end import ClientEnd
from schedbed.cluster.wire.endpoint import PATH_BYTES, Endpoint
from schedbed.cluster.wire.framing import GREETING_BYTES, HEADER, CallFailed
from schedbed.cluster.wire.server_end import ServerEnd
from schedbed.cluster.wire.unauthenticated_peers import UnauthenticatedPeers
from schedbed.tasks.errors import BadInput

TOKEN = "secret"


class CountingDoor(Protocol):
    """An interface with calls that a server counts."""

    async def add(self, amount: int, note: str = "") -> int: ...

    async def fail(self, how: str) -> None: ...


class Bench:
    """A server that adds numbers. While `gate` is cleared, it does not answer."""

    def __init__(self, place: Endpoint) -> None:
        self.wanted = place
        self.total = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.server = ServerEnd(CountingDoor, self._serve)

    async def _serve(self, method: str, given: Any) -> Any:
        if method == "fail":
            raise {"gone": MasterGone, "bad": BadInput, "own": ZeroDivisionError}[given["how"]]("why")
        self.total += given["amount"]
        await self.gate.wait()
        return self.total

    async def find(self) -> Endpoint:
        return self.place

    async def open(self) -> None:
        self.place = await self.server.listen(self.wanted)

    async def raw(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_unix_connection(self.place.path)


def run_story(
    folder: Path, story: Callable[[Bench, ClientEnd], Awaitable[None]], *, tcp: bool = False
) -> None:
    """Run the coroutine `story` with a server and one client of it, over TCP or a Unix socket."""
    place = Endpoint(host="127.0.0.1", token=TOKEN) if tcp else Endpoint(path=str(folder / "s"), token=TOKEN)

    async def told() -> None:
        bench = Bench(place)
        await bench.open()
        client = ClientEnd(CountingDoor, bench.find)
        try:
            async with asyncio.timeout(20):
                await story(bench, client)
        finally:
            client.close()
            await bench.server.close()

    asyncio.run(told())


def framed(value: Any) -> bytes:
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    return HEADER.pack(len(body)) + body


async def greeted(bench: Bench, client: str = "raw") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await bench.raw()
    writer.write(framed({"token": TOKEN, "client": client}))
    assert "life" in await answer(reader)
    return reader, writer


async def answer(reader: asyncio.StreamReader) -> Any:
    (size,) = HEADER.unpack(await reader.readexactly(HEADER.size))
    return json.loads(await reader.readexactly(size))


@pytest.mark.parametrize("tcp", [False, True])
def test_calls_are_answered_out_of_order_and_errors_arrive_as_what_they_are(
    tmp_path: Path, tcp: bool
) -> None:
    async def story(bench: Bench, client: ClientEnd) -> None:
        bench.gate.clear()
        slow = asyncio.create_task(client.call("add", (1,), {"note": "x"}))
        with pytest.raises(BadInput, match="why"):
            await client.call("fail", ("bad",), {})
        with pytest.raises(MasterGone, match="why"):
            await client.call("fail", (), {"how": "gone"})
        with pytest.raises(CallFailed, match="ZeroDivisionError: why"):
            await client.call("fail", ("own",), {})
        with pytest.raises(BadInput, match="expected int, not 'one'"):
            await client.call("add", ("one",), {})
        bench.gate.set()
        assert await slow == 1

    run_story(tmp_path, story, tcp=tcp)


@pytest.mark.parametrize(
    "greeting",
    [
        framed({"token": "wrong", "client": "a"}),
        framed({"token": "\ud800", "client": "a"}),
        framed({"token": TOKEN}),
        framed([1, 1, "add", {"amount": 5}]),
        framed(b"no json"),
        framed(b"[" * GREETING_BYTES),
        struct.pack("!I", GREETING_BYTES + 1),
    ],
)
def test_who_does_not_begin_with_the_token_hears_nothing(tmp_path: Path, greeting: bytes) -> None:
    async def story(bench: Bench, client: ClientEnd) -> None:
        reader, writer = await bench.raw()
        writer.write(greeting + framed([1, 1, "add", {"amount": 5}]))
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await answer(reader)
        writer.close()
        assert await client.call("add", (0,), {}) == 0

    run_story(tmp_path, story)


def test_a_client_with_the_wrong_token_is_refused(tmp_path: Path) -> None:
    async def story(bench: Bench, client: ClientEnd) -> None:
        bench.place = replace(bench.place, token="wrong")
        with pytest.raises(MasterGone, match="refused"):
            await client.call("add", (1,), {})
        assert bench.total == 0

    run_story(tmp_path, story)


@pytest.mark.parametrize(
    "greeting",
    [
        {"token": "", "client": "c"},
        {"token": "s\u00e9cret", "client": "c"},
        {"token": "\ud800", "client": "c"},
        {"token": TOKEN * 100, "client": "c"},
        {"token": None, "client": "c"},
        {"token": [TOKEN], "client": "c"},
        {"client": "c"},
        {"token": TOKEN},
        TOKEN,
        None,
        [1, 1, "add", {"amount": 1}],
    ],
)
def test_a_greeting_without_the_token_is_refused_without_a_word(tmp_path: Path, greeting: Any) -> None:
    async def story(bench: Bench, client: ClientEnd) -> None:
        reader, writer = await bench.raw()
        writer.write(framed(greeting))
        assert await reader.read() == b""
        writer.close()
        assert bench.total == 0
        assert await client.call("add", (1,), {}) == 1

    run_story(tmp_path, story)


def test_silent_peers_do_not_keep_out_those_who_speak(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_end, "UnauthenticatedPeers", partial(UnauthenticatedPeers, places=3))

    async def story(bench: Bench, client: ClientEnd) -> None:
        silent = [await bench.raw() for _ in range(5)]
        for reader, _ in silent[:2]:
            assert await reader.read() == b""
        assert await client.call("add", (1,), {}) == 1
        for _, writer in silent:
            writer.close()

    run_story(tmp_path, story)


def test_a_greeting_that_takes_too_long_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_end, "UnauthenticatedPeers", partial(UnauthenticatedPeers, patience_s=0.05))

    async def story(bench: Bench, client: ClientEnd) -> None:
        reader, writer = await bench.raw()
        writer.write(framed({"token": TOKEN, "client": "slow"})[:7])
        assert await reader.read() == b""
        writer.close()

    run_story(tmp_path, story)


@pytest.mark.parametrize(
    "nonsense", [struct.pack("!I", 2**31), framed({"token": TOKEN}), framed([1, "add"]), framed(b"\xff")]
)
def test_nonsense_behind_the_token_ends_that_connection_only(tmp_path: Path, nonsense: bytes) -> None:
    async def story(bench: Bench, client: ClientEnd) -> None:
        reader, writer = await greeted(bench)
        writer.write(nonsense)
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await answer(reader)
        writer.close()
        assert await client.call("add", (1,), {}) == 1

    run_story(tmp_path, story)


@pytest.mark.parametrize(
    ("method", "given", "said"),
    [
        ("_serve", {}, "no call of this door"),
        ("add", [1], "expected the arguments by name"),
        ("add", {"amount": True}, "expected int"),
        ("add", {"amount": 1, "more": 1}, "no such arguments: more"),
    ],
)
def test_a_call_that_is_none_is_told_so(tmp_path: Path, method: str, given: Any, said: str) -> None:
    async def story(bench: Bench, client: ClientEnd) -> None:
        reader, writer = await greeted(bench)
        writer.write(framed([1, 1, method, given]))
        number, name, words = await answer(reader)
        assert (number, name) == (1, "BadInput") and said in words
        writer.close()

    run_story(tmp_path, story)


def test_a_frame_in_pieces_and_frames_in_one_piece_arrive(tmp_path: Path) -> None:
    async def story(bench: Bench, client: ClientEnd) -> None:
        reader, writer = await greeted(bench)
        both = framed([1, 1, "add", {"amount": 1}]) + framed([2, 1, "add", {"amount": 10}])
        for byte in both[:30]:
            writer.write(bytes([byte]))
            await asyncio.sleep(0)
        writer.write(both[30:])
        assert [await answer(reader), await answer(reader)] == [[1, 1], [2, 11]]
        writer.close()

    run_story(tmp_path, story)


def test_a_repeat_is_answered_alike_on_any_connection_until_the_call_is_settled(tmp_path: Path) -> None:
    call = framed([1, 1, "add", {"amount": 3}])

    async def story(bench: Bench, client: ClientEnd) -> None:
        bench.gate.clear()
        _, cut = await greeted(bench, "one")
        cut.write(call + call[: len(call) // 2])  # the connection breaks in the middle of a frame
        await cut.drain()
        cut.close()
        reader, writer = await greeted(bench, "one")
        writer.write(call + framed([2, 1, "fail", {"how": "bad"}]))
        assert await answer(reader) == [2, "BadInput", "why"]
        bench.gate.set()
        assert await answer(reader) == [1, 3]
        writer.write(call)
        assert await answer(reader) == [1, 3]
        other, to_other = await greeted(bench, "two")
        to_other.write(call)
        assert await answer(other) == [1, 6]  # a call of its own
        writer.write(framed([3, 2, "add", {"amount": 0}]) + call)
        assert [await answer(reader), await answer(reader)] == [[3, 6], [1, 9]]  # it had settled the call
        writer.close()
        to_other.close()

    run_story(tmp_path, story)


def test_a_broken_connection_is_made_again_and_no_call_is_carried_out_twice(tmp_path: Path) -> None:
    async def story(bench: Bench, client: ClientEnd) -> None:
        breaker, places = Breaker(bench.place.path, tmp_path / "b"), bench.place
        await breaker.open()
        bench.place = replace(places, path=str(tmp_path / "b"))
        assert await client.call("add", (1,), {}) == 1
        bench.gate.clear()
        calls = [asyncio.create_task(client.call("add", (10,), {})) for _ in range(3)]
        while bench.total < 31:
            await asyncio.sleep(0.001)
        breaker.cut()
        while breaker.opened < 2:
            await asyncio.sleep(0.001)
        bench.gate.set()
        assert [await call for call in calls] == [31, 31, 31]
        assert bench.total == 31
        breaker.close()

    run_story(tmp_path, story)


class Breaker:
    """A proxy that forwards bytes until the test breaks all connections."""

    def __init__(self, target: str, path: Path) -> None:
        self._target, self._path = target, path
        self.opened = 0
        self._writers: list[asyncio.StreamWriter] = []

    async def open(self) -> None:
        self._server = await asyncio.start_unix_server(self._pass, str(self._path))

    def cut(self) -> None:
        for writer in self._writers:
            writer.close()
        self._writers.clear()

    def close(self) -> None:
        self.cut()
        self._server.close()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_unix_connection(self._target)
        self._writers += [writer, back]
        self.opened += 1
        await asyncio.gather(self._pump(reader, back), self._pump(there, writer))

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
        writer.close()


def test_a_server_that_has_started_again_is_found_and_what_the_old_one_heard_fails(tmp_path: Path) -> None:
    async def story(bench: Bench, client: ClientEnd) -> None:
        bench.gate.clear()
        lost = asyncio.create_task(client.call("add", (1,), {}))
        while not bench.total:
            await asyncio.sleep(0.001)
        again = Bench(bench.wanted)
        await bench.server.close()
        with pytest.raises(MasterGone):
            await lost
        with pytest.raises(MasterGone):
            await client.call("add", (1,), {})
        await again.open()
        assert await client.call("add", (5,), {}) == 5
        await again.server.close()

    run_story(tmp_path, story)


def test_a_call_that_is_given_up_does_not_hold_up_others(tmp_path: Path) -> None:
    async def story(bench: Bench, client: ClientEnd) -> None:
        bench.gate.clear()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await client.call("add", (1,), {})
        bench.gate.set()
        assert await client.call("add", (1,), {}) == bench.total
        with pytest.raises(TypeError):
            await client.call("add", (object(),), {})
        assert await client.call("add", (0,), {}) == bench.total

    run_story(tmp_path, story)


def test_a_path_that_is_too_long_for_a_unix_socket_becomes_a_port() -> None:
    assert Endpoint.on_one_host(Path("/tmp/x"), "127.0.0.1", "t").path == "/tmp/x"
    assert Endpoint.on_one_host(Path("/" + "x" * PATH_BYTES), "127.0.0.1", "t").host == "127.0.0.1"
    assert TOKEN not in repr(Endpoint(path="/tmp/x", token=TOKEN))
