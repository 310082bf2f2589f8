"""A real NameNode with simple block nodes: dictionaries (`World`), or real HTTP servers (`fake_cluster`)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer

from schedbed.cluster.blocks.namenode import NameNode
from schedbed.cluster.blocks.served_namenode import served
from schedbed.cluster.clock import RunClock
from schedbed.cluster.masters import NameNodeDoor, make_stub, make_table


class World:
    """A NameNode with nodes n1, n2, ... spread over `racks`.

    `disks` is a dictionary from each node, dead or alive, to its blocks with their lengths.
    """

    def __init__(self, nodes: int, racks: int = 1, journal: Path | None = None, **settings: Any) -> None:
        self.racks = {f"n{i}": f"r{i % racks}" for i in range(1, nodes + 1)}
        self.journal = journal
        self.settings = {"seed": 1, "order": list(self.racks), "copy_timeout_s": 60.0, **settings}
        self.disks: dict[str, dict[str, int]] = {node: {} for node in self.racks}
        self.bad: set[tuple[str, str]] = set()
        self.alive = list(self.racks)
        self.now_s = 0.0
        self.deleted: list[tuple[str, str]] = []
        self.names = NameNode(journal, **self.settings)
        for node in self.racks:
            self.register(node)

    def restart_name_node(self) -> None:
        """Start a new NameNode on the same journal; the nodes must register again."""
        self.names.shutdown()
        self.names = NameNode(self.journal, **self.settings)

    def register(self, node: str) -> None:
        blocks = [{"block": block, "length": length} for block, length in self.disks[node].items()]
        self.names.register(self.now_s, node, self.racks[node], f"http://{node}", blocks)

    def upload(self, path: str, lengths: list[int], replication: int, **how: Any) -> list[dict[str, Any]]:
        plan = self.names.plan_input(self.now_s, path, lengths, replication, **how)
        for planned in plan:
            self._store(planned["block"], planned["length"], planned["nodes"])
        self.names.input_uploaded(self.now_s, path)
        return plan

    def write(self, path: str, length: int, replication: int, writer: str | None = None) -> dict[str, Any]:
        given = self.names.allocate(self.now_s, path, writer, replication, length)
        self._store(given["block"], length, given["nodes"])
        self.names.complete(self.now_s, path, [{**given, "length": length}])
        return given

    def _store(self, block: str, length: int, nodes: list[str]) -> None:
        for node in nodes:
            self.disks[node][block] = length

    def kill(self, node: str) -> None:
        self.alive.remove(node)
        self.names.node_lost(self.now_s, node)

    def revive(self, node: str) -> None:
        self.alive.append(node)
        self.register(node)

    def spoil(self, node: str, block: str) -> None:
        """Corrupt a replica without a message to the NameNode."""
        self.bad.add((node, block))

    def good(self, block: str) -> list[str]:
        """Return the live nodes whose disk holds a good replica of the block."""
        return [n for n in self.alive if block in self.disks[n] and (n, block) not in self.bad]

    def known(self, path: str) -> dict[str, list[str]]:
        """Return the nodes of each block of a file, as the NameNode knows them."""
        return {block["block"]: sorted(block["nodes"]) for block in self.names.locate(path)}

    def heartbeat(self, node: str) -> Sequence[Mapping[str, Any]]:
        """Send a node's heartbeat, and carry out the orders in the answer."""
        commands = self.names.heartbeat(self.now_s, node)
        for command in commands:
            match command["type"]:
                case "replicate":
                    self._replicate(node, command["block"], command["to"][0])
                case "delete_block":
                    self.deleted.append((node, command["block"]))
                    self.disks[node].pop(command["block"], None)
                    self.bad.discard((node, command["block"]))
                    self.names.block_event(self.now_s, node, "removed", command["block"], 0)
                case "report_blocks":
                    self.register(node)
        return commands

    def _replicate(self, source: str, block: str, target: str) -> None:
        if (source, block) in self.bad:
            self.names.block_event(self.now_s, source, "corrupt", block, 0)
        elif target in self.alive:
            self.disks[target][block] = self.disks[source][block]
            self.bad.discard((target, block))
            self.names.block_event(self.now_s, target, "added", block, self.disks[target][block])

    def settle(self, rounds: int = 200) -> None:
        """Send heartbeats of all live nodes until no orders come for longer than a timeout."""
        quiet = 0
        for _ in range(rounds):
            self.now_s += 20.0
            did = [self.heartbeat(node) for node in self.alive]
            quiet = 0 if any(did) else quiet + 1
            if quiet > 4:
                return
        raise AssertionError("the block store does not come to rest")


TOKEN = "secret"


class FakeAgents:
    """HTTP servers that store blocks in dictionaries.

    `disks` is a dictionary from node to its blocks. `refuse` is the number of PUTs that each node still
    refuses. Replicas in `rotten` end half-way when they are read.
    """

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

        async def expect(request: web.Request) -> None:
            if self.refuse.get(node, 0) > 0:
                self.refuse[node] -= 1
                raise web.HTTPInsufficientStorage(text="disk full")
            assert request.transport is not None
            request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

        app.router.add_put("/blocks/{block}", put, expect_handler=expect)
        app.router.add_get("/blocks/{block}", get)
        return app

    def _check(self, request: web.Request) -> None:
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            raise web.HTTPUnauthorized
        assert request.query["unpaced"] == "1"

    async def _put(self, request: web.Request, node: str) -> web.Response:
        self._check(request)
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
    """A run's clock that always reads 100.5 s."""

    def now_s(self) -> float:
        return 100.5


class Cluster:
    """Fake agents with a real NameNode, called through `door`; `calls` lists the methods called."""

    def __init__(self, agents: FakeAgents) -> None:
        self.agents = agents
        self.names = NameNode(seed=1, order=list(agents.disks))
        self.calls: list[str] = []
        self._table = make_table(NameNodeDoor, served(self.names, StandingClock(1.0)))
        self.door = make_stub(NameNodeDoor, self._send)

    async def _send(self, method: str, args: Sequence[Any], named: Mapping[str, Any]) -> Any:
        self.calls.append(method)
        return await self._table[method](*args, **named)


@asynccontextmanager
async def fake_cluster(nodes: int = 3) -> AsyncIterator[Cluster]:
    """Yield a running cluster of fake agents, all registered."""
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
