"""TLS between processes of a run, over real sockets: who may connect, and what an eavesdropper sees."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Awaitable
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol

import aiohttp
import pytest
from aiohttp import web

from schedbed.cluster.masters import MasterGone
from schedbed.cluster.run_config import RunConfig
from schedbed.cluster.spec import BlockSettings, ClusterSpec
from schedbed.cluster.wire.agent_session import agent_session
from schedbed.cluster.wire.certificates import make_certificates
from schedbed.cluster.wire.client_end import ClientEnd
from schedbed.cluster.wire.endpoint import Endpoint
from schedbed.cluster.wire.handshake import handshakes
from schedbed.cluster.wire.http_gate import HttpGate, Refusal
from schedbed.cluster.wire.port_range import listen_at
from schedbed.cluster.wire.server_end import ServerEnd
from schedbed.cluster.wire.tls import Tls, scheme_of
from schedbed.cluster.wire.unauthenticated_peers import UnauthenticatedPeers
from schedbed.deploy.options import RunOptions
from schedbed.tasks.context import NodeContext
from schedbed.tasks.errors import BadInput
from schedbed.tasks.node_client.http_requests import AgentLink
from tests.harness.agents import node_spec
from tests.harness.wire_tap import Tap, tapped

TOKEN = "5ecret"
MARK = "a-marker-that-no-cipher-text-has"
OURS, OTHERS = make_certificates(), make_certificates()
LATE = make_certificates(timedelta(seconds=-1))
MISMATCHES = {
    "another authority": (OURS, OTHERS),
    "an expired certificate": (LATE, LATE),
    "a client in clear": (OURS, None),
    "a server in clear": (None, OURS),
}
mismatched = pytest.mark.parametrize(("server", "client"), MISMATCHES.values(), ids=MISMATCHES)


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the time limit for unauthenticated connections so high that no test passes by waiting for it."""
    defaults = UnauthenticatedPeers.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "patience_s", 1e6)


def told(story: Awaitable[None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(30):
            await story

    asyncio.run(bounded())


# --------------------------------------------------------------------------------------- framed calls to masters


class EchoDoor(Protocol):
    """An interface with one call that returns its argument."""

    async def echo(self, words: str) -> str: ...


async def call_framed(server: Tls | None, client: Tls | None, heard: list[str], tap_to: list[Tap]) -> str:
    """Return a client's answer from a server, with a recording proxy between them.

    The server appends the words received to `heard`, and the proxy is appended to `tap_to`.
    """

    async def serve(_method: str, given: Any) -> str:
        heard.append(given["words"])
        return given["words"] * 2

    end = ServerEnd(EchoDoor, serve)
    place = await end.listen(Endpoint(host="127.0.0.1", token=TOKEN, tls=server))
    assert place.tls is None or not (place.tls.key or place.tls.certificate)  # as it is told to clients
    async with tapped(place.port) as tap:
        tap_to.append(tap)

        async def find() -> Endpoint:
            return Endpoint(host="127.0.0.1", port=tap.port, token=TOKEN, tls=client)

        asking = ClientEnd(EchoDoor, find)
        try:
            return await asking.call("echo", (MARK,), {})
        finally:
            asking.close()
            await end.close()


@pytest.mark.parametrize("tls", [OURS, None], ids=["TLS", "clear"])
def test_calls_to_masters_are_seen_on_the_wire_without_tls_only(tls: Tls | None) -> None:
    async def story() -> None:
        heard: list[str] = []
        taps: list[Tap] = []
        assert await call_framed(tls, tls and tls.public(), heard, taps) == MARK * 2 and heard == [MARK]
        for secret in (MARK, TOKEN):
            assert (secret.encode() in taps[0].passed) == (tls is None)

    told(story())


@mismatched
def test_a_master_and_a_client_that_do_not_fit_fail_in_a_line(server: Tls | None, client: Tls | None) -> None:
    async def story() -> None:
        heard: list[str] = []
        taps: list[Tap] = []
        with pytest.raises(MasterGone) as failed:
            await call_framed(server, client, heard, taps)
        assert str(failed.value) and "\n" not in str(failed.value)
        assert heard == [] and MARK.encode() not in taps[0].passed
        assert client is None or TOKEN.encode() not in taps[0].passed

    told(story())


def test_a_connection_that_breaks_is_made_again_with_tls() -> None:
    async def story() -> None:
        async def serve(_method: str, given: Any) -> str:
            return given["words"]

        end = ServerEnd(EchoDoor, serve)
        place = await end.listen(Endpoint(host="127.0.0.1", token=TOKEN, tls=OURS))
        async with tapped(place.port) as tap:

            async def find() -> Endpoint:
                return Endpoint(host="127.0.0.1", port=tap.port, token=TOKEN, tls=OURS.public())

            asking = ClientEnd(EchoDoor, find)
            for number in range(3):
                assert await asking.call("echo", (str(number),), {}) == str(number)
                tap.cut()
            asking.close()
            await end.close()
        assert tap.connections >= 3

    told(story())


# ------------------------------------------------------------------------------------------- HTTP between agents


class Store:
    """A server that stores blocks, behind an `HttpGate`."""

    def __init__(self, tls: Tls | None) -> None:
        self.stored: list[bytes] = []
        self._tls = tls

    async def __aenter__(self) -> Store:
        gate = HttpGate(TOKEN, Refusal("text/plain", b"no"))
        app = web.Application(middlewares=[gate.middleware()], client_max_size=2**24)
        app.router.add_route("*", "/{any:.*}", self._hear)
        self._runner = await gate.serve(app, listen_at("127.0.0.1"), tls=self._tls)
        self.port = self._runner.addresses[0][1]
        return self

    async def _hear(self, request: web.Request) -> web.Response:
        self.stored.append(await request.read())
        return web.json_response(MARK)

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()


async def put_async(port: int, tls: Tls | None, token: str) -> int:
    async with agent_session(token, tls) as session:
        url = f"{scheme_of(tls)}://127.0.0.1:{port}/blocks/b1"
        async with session.put(url, data=MARK.encode()) as response:
            await response.read()
            return response.status


async def put_of_attempt(port: int, tls: Tls | None, token: str) -> int:
    url = f"{scheme_of(tls)}://127.0.0.1:{port}"
    context = NodeContext(
        node="n1", rack="a", agent_url=url, token=token, root=Path("/"), peers={}, racks={}, epoch_s=0.0,
        core_speed=1.0, authority="" if tls is None else tls.authority,
    )  # fmt: skip

    def put() -> int:
        link = AgentLink(context)
        try:
            response = link.send(url, "PUT", "/blocks/b1", MARK.encode())
            response.read()
            return response.status
        finally:
            link.drop(url)

    return await asyncio.to_thread(put)


by_each = pytest.mark.parametrize("put", [put_async, put_of_attempt])


@by_each
@pytest.mark.parametrize("tls", [OURS, None], ids=["TLS", "clear"])
def test_blocks_are_seen_on_the_wire_without_tls_only(put: Any, tls: Tls | None) -> None:
    async def story() -> None:
        async with Store(tls) as store, tapped(store.port) as tap:
            assert await put(tap.port, tls and tls.public(), TOKEN) == 200
            assert store.stored == [MARK.encode()]
        for secret in (MARK, TOKEN):
            assert (secret.encode() in tap.passed) == (tls is None)

    told(story())


@by_each
@mismatched
def test_a_server_and_a_client_of_blocks_that_do_not_fit_fail_in_a_line(
    put: Any, server: Tls | None, client: Tls | None
) -> None:
    async def story() -> None:
        async with Store(server) as store, tapped(store.port) as tap:
            with pytest.raises((aiohttp.ClientError, OSError)) as failed:
                await put(tap.port, client, TOKEN)
            assert str(failed.value) and "\n" not in str(failed.value)
            assert store.stored == []
        assert client is None or not any(secret.encode() in tap.passed for secret in (MARK, TOKEN))

    told(story())


@by_each
def test_the_token_is_needed_within_tls(put: Any) -> None:
    async def story() -> None:
        async with Store(OURS) as store:
            assert await put(store.port, OURS, "wrong") == 401
            assert store.stored == []

    told(story())


@pytest.mark.parametrize("scheme", ["http", "ws"])
def test_with_tls_no_agent_is_asked_in_clear(scheme: str) -> None:
    async def story() -> None:
        async with Store(None) as store, tapped(store.port) as tap, agent_session(TOKEN, OURS) as session:
            with pytest.raises(aiohttp.ClientError, match="expected https"):
                await session.get(f"{scheme}://127.0.0.1:{tap.port}/")
        assert tap.passed == b""
        context = NodeContext(
            node="n1", rack="a", agent_url="", token=TOKEN, root=Path("/"), peers={}, racks={}, epoch_s=0.0,
            core_speed=1.0, authority=OURS.authority,
        )  # fmt: skip
        with pytest.raises(OSError, match="expected https"):
            AgentLink(context).open("http://127.0.0.1:1")

    told(story())


# ------------------------------------------------------------------------------------------------ the handshake


def test_of_peers_that_never_shake_hands_the_oldest_give_way() -> None:
    async def story() -> None:
        waiting = UnauthenticatedPeers(TOKEN, patience_s=1e6, places=2)
        loop = asyncio.get_running_loop()
        made: list[asyncio.Protocol] = []

        def make() -> asyncio.Protocol:
            made.append(asyncio.Protocol())
            return made[-1]

        server = await loop.create_server(handshakes(make, OURS, waiting), sock=listen_at("127.0.0.1"))
        port = server.sockets[0].getsockname()[1]
        first = await asyncio.open_connection("127.0.0.1", port)
        others = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        try:
            with pytest.raises(ConnectionResetError):
                assert await first[0].read()
        except AssertionError:
            assert first[0].at_eof()
        assert len(waiting) == 2 and made == []
        for _, writer in (first, *others):
            writer.close()
        server.close()

    told(story())


def test_a_peer_that_does_not_shake_hands_is_dropped_after_a_while() -> None:
    async def story() -> None:
        waiting = UnauthenticatedPeers(TOKEN, patience_s=0.05)
        loop = asyncio.get_running_loop()
        make = handshakes(asyncio.Protocol, OURS, waiting)
        server = await loop.create_server(make, sock=listen_at("127.0.0.1"))
        reader, writer = await asyncio.open_connection("127.0.0.1", server.sockets[0].getsockname()[1])
        try:
            assert await reader.read() == b""
        except ConnectionResetError:
            pass
        writer.close()
        server.close()

    told(story())


# ------------------------------------------------------------------------------------------------------ secrets


def test_the_key_is_not_shown_and_not_in_what_clients_are_told() -> None:
    key_line = OURS.key.splitlines()[1]
    assert key_line not in repr(OURS) and key_line not in repr(Endpoint(tls=OURS))
    assert OURS.public() == Tls(authority=OURS.authority)
    with pytest.raises(ValueError, match="no private key"):
        OURS.public().serving()


def test_the_masters_file_of_a_run_has_no_key(tmp_path: Path) -> None:
    cluster = ClusterSpec(nodes=(node_spec("n1"),), heartbeat_s=0.5, blocks=BlockSettings())
    config = RunConfig(
        run_id="r", policy="fifo", given="fifo", scale=1.0, seed=1, epoch_s=0.0, token=TOKEN, work=tmp_path,
        cluster=cluster, tls=OURS,
    )  # fmt: skip
    config.save(tmp_path)
    assert "PRIVATE" not in (tmp_path / "current.json").read_text()
    found = RunConfig.load(tmp_path)
    assert found is not None and found.tls == OURS.public()


def test_certificates_end() -> None:
    from cryptography import x509

    for text in (OURS.authority, OURS.certificate):
        made = x509.load_pem_x509_certificate(text.encode())
        assert made.not_valid_after_utc - made.not_valid_before_utc < timedelta(days=100)


# ------------------------------------------------------------------------------------------------------ options


def test_tls_is_refused_where_it_cannot_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadInput, match="expected --address beside it"):
        RunOptions(tls=True)
    assert not RunOptions(tls=True, address="auto").is_in_clear and RunOptions(address="auto").is_in_clear
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(BadInput, match=r"pip install 'schedbed\[tls\]'"):
        RunOptions(tls=True, address="auto")
