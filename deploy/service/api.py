"""The API of a cluster that stays up: JSON over HTTP on the loopback interface, for clients with the token."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Protocol

from aiohttp import web

from schedbed.cluster.blocks.block_errors import BlockStoreError, PathNotFound
from schedbed.cluster.masters import MasterGone
from schedbed.cluster.wire.http_gate import HttpGate, Refusal
from schedbed.cluster.wire.port_range import PortRange
from schedbed.deploy.http_thread import HttpThread
from schedbed.deploy.json_answers import object_in, told
from schedbed.deploy.live.job_outputs import Outputs
from schedbed.tasks.errors import BadInput

log = logging.getLogger(__name__)

Json = dict[str, Any]
BODY_BYTES = 8 << 20
THREADS = 32  # submissions wait in one until their input is uploaded


class Service(Protocol):
    """The operations that the API needs; all but `status`, `job` and `down` may block.

    They raise BadInput, RunFailed or MasterGone.
    """

    def status(self) -> Json: ...
    def job(self, job: str) -> Json: ...
    def submit(self, request: Json) -> list[str]: ...
    def kill(self, job: str) -> None: ...
    def fault(self, fault: Any) -> Json: ...
    def down(self, wait: bool) -> None: ...
    def outputs(self) -> Outputs: ...


class Api(HttpThread):
    """Serves in a thread of its own while the context lasts, at any of `ports`; `url` is its address."""

    def __init__(self, service: Service, token: str, ports: PortRange | None = None) -> None:
        gate = HttpGate(token, Refusal("application/json", b'{"error": "no valid token"}'))
        super().__init__(make_app(service, gate), gate, ports=ports, threads=THREADS)


def make_app(service: Service, gate: HttpGate) -> web.Application:
    """Return the aiohttp application; `json_answers.told` defines the answers to errors."""
    app = web.Application(client_max_size=BODY_BYTES, middlewares=[gate.middleware(), told])
    handlers = _Handlers(service)
    app.router.add_get("/status", handlers.status)
    app.router.add_post("/jobs", handlers.submit)
    app.router.add_get("/jobs/{job}", handlers.job)
    app.router.add_post("/jobs/{job}/kill", handlers.kill)
    app.router.add_get("/jobs/{job}/outputs", handlers.parts)
    app.router.add_get("/jobs/{job}/outputs/{part}", handlers.part)
    app.router.add_post("/faults", handlers.fault)
    app.router.add_post("/down", handlers.down)
    return app


class _Handlers:
    """The methods that answer the routes."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def status(self, _: web.Request) -> web.Response:
        return web.json_response(self._service.status())

    async def submit(self, request: web.Request) -> web.Response:
        jobs = await asyncio.to_thread(self._service.submit, await object_in(request))
        return web.json_response({"jobs": [{"job": job} for job in jobs]})

    async def job(self, request: web.Request) -> web.Response:
        return web.json_response(self._service.job(request.match_info["job"]))

    async def kill(self, request: web.Request) -> web.Response:
        job = self._service.job(request.match_info["job"])["job"]
        await asyncio.to_thread(self._service.kill, job)
        return web.json_response({"job": job})

    async def parts(self, request: web.Request) -> web.Response:
        return web.json_response({"parts": await self._parts(request)})

    async def part(self, request: web.Request) -> web.StreamResponse:
        name, parts = request.match_info["part"], await self._parts(request)
        if name not in parts:
            raise BadInput(
                f"{request.match_info['job']}: no part {name!r}, it has {', '.join(parts) or 'none'}"
            )
        data = self._service.outputs().read(f"/out/{request.match_info['job']}/{name}")
        response = web.StreamResponse(headers={"Content-Length": str(parts[name])})
        response.content_type = "application/octet-stream"
        await response.prepare(request)
        try:
            async for piece in data:
                await response.write(piece)
            await response.write_eof()
        except (BlockStoreError, MasterGone) as error:
            log.warning("%s: %s", request.path, error)
            if request.transport is not None:
                request.transport.abort()  # the client sees that the body ends early
        return response

    async def _parts(self, request: web.Request) -> dict[str, int]:
        job = self._service.job(request.match_info["job"])["job"]
        try:
            return await self._service.outputs().parts(job)
        except PathNotFound:
            return {}

    async def fault(self, request: web.Request) -> web.Response:
        body = await object_in(request)
        return web.json_response(await asyncio.to_thread(self._service.fault, body.get("fault")))

    async def down(self, request: web.Request) -> web.Response:
        wait = (await object_in(request)).get("wait", False)
        if not isinstance(wait, bool):
            raise BadInput(f"wait: {wait!r} is not true or false")
        self._service.down(wait)
        return web.json_response({})
