"""The HTTP API of a cluster that stays up, on the loopback interface, for the owner and users with tokens."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Protocol

from aiohttp import web

from schedbed.cluster.blocks.block_errors import BlockStoreError, PathNotFound
from schedbed.cluster.masters import MasterGone
from schedbed.cluster.wire.http_gate import HttpGate, Refusal
from schedbed.cluster.wire.port_range import PortRange
from schedbed.deploy.failures import Denied
from schedbed.deploy.http_thread import Handler, HttpThread, errors_as_json, object_in
from schedbed.deploy.live.job_outputs import Outputs
from schedbed.deploy.service.users.user_book import TokenUser, UserBook
from schedbed.tasks.errors import BadInput

log = logging.getLogger(__name__)

Json = dict[str, Any]
BODY_BYTES = 8 << 20
THREADS = 32  # A submission blocks a thread until its input is uploaded.


class Service(Protocol):
    """The operations of a running cluster that the API calls.

    `user` is the user with a token who makes the request, or None for the cluster's owner. They raise
    BadInput, RunFailed or MasterGone. All but `status`, `job`, `users` and `down` may block.
    """

    @property
    def book(self) -> UserBook: ...
    def status(self, user: TokenUser | None = None) -> Json: ...
    def users(self) -> list[Json]: ...
    def change_user(self, name: str, request: Json, *, is_new: bool) -> Json: ...
    def job(self, job: str) -> Json: ...
    def submit(self, request: Json, user: TokenUser | None = None) -> list[str]: ...
    def kill(self, job: str) -> None: ...
    def fault(self, fault: Any) -> Json: ...
    def change(self, request: Json) -> Json: ...
    def down(self, wait: bool) -> None: ...
    def outputs(self) -> Outputs: ...


class Api(HttpThread):
    """A context manager that serves the API of `service` at `url` in another thread.

    The server listens at `port`, or at any free port of `ports` if that is 0. `token` is the owner's.
    """

    def __init__(
        self, service: Service, token: str, ports: PortRange | None = None, *, port: int = 0
    ) -> None:
        refusal = Refusal("application/json", b'{"error": "no valid token"}')
        gate = HttpGate(token, refusal, others=lambda shown: service.book.who(shown) is not None)
        super().__init__(make_app(service, gate), gate, port=port, ports=ports, threads=THREADS)


def make_app(service: Service, gate: HttpGate) -> web.Application:
    """Return the application that serves the API's routes. `gate` checks tokens."""
    app = web.Application(client_max_size=BODY_BYTES, middlewares=[gate.middleware(), errors_as_json])
    callers = Callers(service.book, gate)
    handlers = _Handlers(service, callers)
    app.router.add_get("/status", handlers.status)
    app.router.add_post("/jobs", handlers.submit)
    app.router.add_get("/jobs/{job}", handlers.job)
    app.router.add_post("/jobs/{job}/kill", handlers.kill)
    app.router.add_get("/jobs/{job}/outputs", handlers.parts)
    app.router.add_get("/jobs/{job}/outputs/{part}", handlers.part)
    app.router.add_post("/faults", callers.owner_only(handlers.fault))
    app.router.add_post("/changes", callers.owner_only(handlers.change))
    app.router.add_post("/down", callers.owner_only(handlers.down))
    app.router.add_get("/users", callers.owner_only(handlers.users))
    app.router.add_put("/users/{user}", callers.owner_only(handlers.add_user))
    app.router.add_post("/users/{user}", callers.owner_only(handlers.set_user))
    app.router.add_delete("/users/{user}", callers.owner_only(handlers.remove_user))
    return app


class Callers:
    """Finds out which user sent a request, from its token, which `gate` has checked before."""

    def __init__(self, book: UserBook, gate: HttpGate) -> None:
        self._book, self._gate = book, gate

    def user_of(self, request: web.Request) -> TokenUser | None:
        """Return a request's user, None for the owner. Raises HTTPUnauthorized if removed in the meantime."""
        token = request.headers.get("Authorization", "").partition(" ")[2].strip()
        if self._gate.unauthenticated.is_token(token):
            return None
        user = self._book.who(token)
        if user is None:
            raise web.HTTPUnauthorized(reason="no valid token")
        return user

    def owner_only(self, handler: Handler) -> Handler:
        """Return a handler that calls `handler` for the cluster's owner, and refuses others (status 403)."""

        async def checked(request: web.Request) -> web.StreamResponse:
            user = self.user_of(request)
            if user is not None:
                what = request.path.split("/")[1]
                raise Denied(f"{what}: only the cluster's owner may do that, this token is {user.name}'s")
            return await handler(request)

        return checked


class _Handlers:
    """The request handlers of the API's routes."""

    def __init__(self, service: Service, callers: Callers) -> None:
        self._service, self._user_of = service, callers.user_of

    async def status(self, request: web.Request) -> web.Response:
        return web.json_response(self._service.status(self._user_of(request)))

    async def submit(self, request: web.Request) -> web.Response:
        jobs = await asyncio.to_thread(self._service.submit, await object_in(request), self._user_of(request))
        return web.json_response({"jobs": [{"job": job} for job in jobs]})

    async def job(self, request: web.Request) -> web.Response:
        return web.json_response(self._service.job(request.match_info["job"]))

    async def kill(self, request: web.Request) -> web.Response:
        job = self._own_job(request)
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
                request.transport.abort()  # So that the client notices the incomplete body.
        return response

    async def _parts(self, request: web.Request) -> dict[str, int]:
        job = self._own_job(request)
        try:
            return await self._service.outputs().parts(job)
        except PathNotFound:
            return {}

    def _own_job(self, request: web.Request) -> str:
        """Return the id of the job in the request's path. Raises Denied if another user submitted that job."""
        job, user = self._service.job(request.match_info["job"]), self._user_of(request)
        if user is not None and job["user"] != user.name:
            raise Denied(f"{job['job']} is a job of {job['user']}, this token is {user.name}'s")
        return job["job"]

    async def fault(self, request: web.Request) -> web.Response:
        body = await object_in(request)
        return web.json_response(await asyncio.to_thread(self._service.fault, body.get("fault")))

    async def change(self, request: web.Request) -> web.Response:
        return web.json_response(await asyncio.to_thread(self._service.change, await object_in(request)))

    async def down(self, request: web.Request) -> web.Response:
        wait = (await object_in(request)).get("wait", False)
        if not isinstance(wait, bool):
            raise BadInput(f"wait: {wait!r} is not true or false")
        self._service.down(wait)
        return web.json_response({})

    async def users(self, _: web.Request) -> web.Response:
        return web.json_response({"users": self._service.users()})

    async def add_user(self, request: web.Request) -> web.Response:
        return await self._change_user(request, is_new=True)

    async def set_user(self, request: web.Request) -> web.Response:
        return await self._change_user(request, is_new=False)

    async def remove_user(self, request: web.Request) -> web.Response:
        self._service.book.remove(request.match_info["user"])
        return web.json_response({})

    async def _change_user(self, request: web.Request, *, is_new: bool) -> web.Response:
        name, body = request.match_info["user"], await object_in(request)
        return web.json_response(self._service.change_user(name, body, is_new=is_new))
