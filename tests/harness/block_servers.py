"""Fake agents over real HTTP: blocks in memory, pipelines, ranges, and replicas that go bad in mid-stream."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer

from schedbed.cluster.blocks.namenode import NameNode
from schedbed.cluster.blocks.served_namenode import ServedNameNode
from schedbed.cluster.clock import RunClock
from schedbed.cluster.doors import make_stub, make_table
from schedbed.cluster.masters import NameNodeDoor

TOKEN = "secret"


class FakeAgents:
    """`disks` by node; `refuse` maps a node to how many PUTs it still refuses; `rotten` replicas end in the middle."""

    def __init__(self, nodes: int) -> None:
        self.disks: dict[str, dict[str, bytes]] = {f"n{i}": {} for i in range(1, nodes + 1)}
        self.refuse: dict[str, int] = {}
        self.rotten: set[tuple[str, str]] = set()
        self.urls: dict[str, str] = {}
        self.gets: list[tuple[str, str]] = []

    def application(self, node: str) -> web.Application:
        app = web.Application(client_max_size=0)

        async def put(request: web.Request) -> web.Response:
            return await self._put(request, node)

        async def get(request: web.Request) -> web.StreamResponse:
            return await self._get(request, node)

        app.router.add_put("/blocks/{block}", put)
        app.router.add_get("/blocks/{block}", get)
        return app

    def _check(self, request: web.Request) -> None:
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            raise web.HTTPUnauthorized
        assert request.query["unpaced"] == "1"

    async def _put(self, request: web.Request, node: str) -> web.Response:
        self._check(request)
        if self.refuse.get(node, 0) > 0:
            self.refuse[node] -= 1
            raise web.HTTPInsufficientStorage(text="disk full")
        block = request.match_info["block"]
        data = b"".join([piece async for piece in request.content.iter_any()])
        self.disks[node][block] = data
        stored = [node]
        rest = [n for n in request.query["pipeline"].split(",") if n]
        if rest and self.refuse.get(rest[0], 0) > 0:
            self.refuse[rest[0]] -= 1
        elif rest:
            params = {"pipeline": ",".join(rest[1:]), "unpaced": "1"}
            headers = {"Authorization": f"Bearer {TOKEN}"}
            url = f"{self.urls[rest[0]]}/blocks/{block}"
            async with (
                ClientSession() as session,
                session.put(url, params=params, data=data, headers=headers) as answer,
            ):
                stored += (await answer.json())["nodes"]
        return web.json_response({"block": block, "length": len(data), "nodes": stored})

    async def _get(self, request: web.Request, node: str) -> web.StreamResponse:
        self._check(request)
        block = request.match_info["block"]
        self.gets.append((node, block))
        data = self.disks[node].get(block)
        if data is None:
            raise web.HTTPNotFound(text="no such block")
        wanted = request.http_range
        piece = data[wanted]
        response = web.StreamResponse(status=206)
        response.content_length = len(piece)
        await response.prepare(request)
        if (node, block) in self.rotten:
            await response.write(piece[: len(piece) // 2])
            assert request.transport is not None
            request.transport.close()
            return response
        await response.write(piece)
        return response


class StandingClock(RunClock):
    """A clock of a run that stands at 100.5 s."""

    def now_s(self) -> float:
        return 100.5


class Cluster:
    """Fake agents and a real NameNode, which `door` leads to; `calls` names what was asked."""

    def __init__(self, agents: FakeAgents) -> None:
        self.agents = agents
        self.names = NameNode(seed=1, order=list(agents.disks))
        self.calls: list[str] = []
        self._table = make_table(NameNodeDoor, ServedNameNode(self.names, StandingClock(1.0)))
        self.door = make_stub(NameNodeDoor, self._send)

    async def _send(self, method: str, args: Sequence[Any], named: Mapping[str, Any]) -> Any:
        self.calls.append(method)
        return await self._table[method](*args, **named)


@asynccontextmanager
async def fake_cluster(nodes: int = 3) -> AsyncIterator[Cluster]:
    """A running cluster of fake agents, all registered."""
    agents = FakeAgents(nodes)
    cluster = Cluster(agents)
    servers = {node: TestServer(agents.application(node)) for node in agents.disks}
    try:
        for node, server in servers.items():
            await server.start_server()
            agents.urls[node] = str(server.make_url("")).rstrip("/")
            cluster.names.register(0.0, node, "r1", agents.urls[node], [])
        yield cluster
    finally:
        for server in servers.values():
            await server.close()
