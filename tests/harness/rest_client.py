"""A WebHDFS client with the access token, for a real NameNode with simple block nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp.test_utils import TestClient, TestServer

from schedbed.cluster.clock import RunClock
from schedbed.cluster.spec import BlockSettings
from schedbed.cluster.webhdfs.rest_call import PREFIX, BlockStore
from schedbed.cluster.webhdfs.webhdfs import WebHdfs
from tests.harness.block_store import TOKEN, Cluster, fake_cluster

Story = Callable[["RestClient", Cluster], Awaitable[None]]


class RestClient:
    """Sends requests to a WebHDFS server, with the token as parameter `delegation`."""

    def __init__(self, http: TestClient[Any, Any]) -> None:
        self.http = http

    def request(self, method: str, path: str, op: str, data: bytes | str | None = None, **params: Any) -> Any:
        query = {"delegation": TOKEN, "op": op, **params}
        return self.http.request(method, PREFIX + path, params=query, data=data, allow_redirects=False)

    async def json(self, method: str, path: str, op: str, **params: Any) -> Any:
        response = await self.request(method, path, op, **params)
        assert response.status == 200, await response.text()
        return await response.json()

    async def store(self, path: str, data: bytes, **params: Any) -> Any:
        """Create a file in two steps: ask for the location without data, then send the data there."""
        first = await self.request("PUT", path, "CREATE", **params)
        assert first.status == 307
        return await self.http.session.put(first.headers["Location"], data=data)

    async def status(self, path: str) -> Any:
        return (await self.json("GET", path, "GETFILESTATUS"))["FileStatus"]

    async def read(self, path: str) -> bytes:
        return await (await self.request("GET", path, "OPEN")).read()

    async def done(self, method: str, path: str, op: str, **params: Any) -> None:
        """Send a request, and check that it succeeds with an empty body."""
        response = await self.request(method, path, op, **params)
        assert (response.status, await response.text()) == (200, "")

    async def error(self, method: str, path: str, op: str, **params: Any) -> tuple[int, str]:
        return (await self.told(method, path, op, **params))[:2]

    async def told(self, method: str, path: str, op: str, **params: Any) -> tuple[int, str, str]:
        """Send a request that must fail; return the status, the exception's name and the message."""
        response = await self.request(method, path, op, **params)
        body = (await response.json())["RemoteException"]
        assert body["javaClassName"].endswith(body["exception"])
        assert body["message"]
        return response.status, body["exception"], body["message"]


def run_story(story: Story) -> None:
    async def run() -> None:
        async with fake_cluster(3) as cluster:
            settings = BlockSettings(size_bytes=1000, replication=2)
            door = WebHdfs(BlockStore(cluster.door, TOKEN, settings, RunClock(1_000_000.0)))
            async with TestClient(TestServer(door.application())) as http:
                await story(RestClient(http), cluster)

    asyncio.run(run())
