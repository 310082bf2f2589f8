"""An HTTP server that runs in a thread of this process and requires a token in each request."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self

from aiohttp import web

from schedbed.cluster.blocks.block_errors import BlockStoreError
from schedbed.cluster.masters import MasterGone
from schedbed.cluster.wire.http_gate import HttpGate
from schedbed.cluster.wire.port_range import PortRange, listen_at
from schedbed.deploy.failures import Denied, RunFailed
from schedbed.tasks.errors import BadInput

STOP_S = 10.0


class HttpThread:
    """Serves `app` on the loopback interface in a thread, behind `gate`, as a context manager.

    A `port` of 0 means any free one (in `ports`). Entering raises BadInput or OSError if it cannot listen.
    """

    def __init__(
        self,
        app: web.Application,
        gate: HttpGate,
        *,
        port: int = 0,
        ports: PortRange | None = None,
        threads: int = 1,
    ) -> None:
        self._app, self._gate = app, gate
        self._port, self._ports, self._threads = port, ports, threads
        self._began: Future[str] = Future()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._over: Callable[[], object] = lambda: None
        self.url = ""

    def __enter__(self) -> Self:
        self._thread.start()
        self.url = self._began.result()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over()
        self._thread.join(STOP_S)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            if self._began.done():
                raise
            self._began.set_exception(error)

    async def _serve(self) -> None:
        loop, over = asyncio.get_running_loop(), asyncio.Event()
        loop.set_default_executor(ThreadPoolExecutor(self._threads))
        self._over = lambda: loop.call_soon_threadsafe(over.set)
        listening = listen_at("127.0.0.1", self._port, self._ports)
        runner = await self._gate.serve(self._app, listening, shutdown_timeout=1.0)
        try:
            self._began.set_result("http://{}:{}".format(*runner.addresses[0][:2]))
            await over.wait()
        finally:
            await runner.cleanup()


# JSON over HTTP: a middleware that turns exceptions into error responses, and a parser of request bodies.

log = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def error_answer(status: int, line: str) -> web.Response:
    """Return a response with the body `{"error": line}`."""
    return web.json_response({"error": line}, status=status)


@web.middleware
async def errors_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Handle a request, with exceptions as `{"error": message}`.

    Bad input is 400, 404 or 413, a missing permission or quota 403 or 429, 503 what the cluster cannot do,
    and 500 anything else.
    """
    try:
        return await handler(request)
    except BadInput as error:
        return error_answer(400, str(error))
    except Denied as error:
        return error_answer(error.status, str(error))
    except (RunFailed, MasterGone, BlockStoreError) as error:
        return error_answer(503, str(error))
    except web.HTTPException as error:
        return error_answer(error.status, f"{request.method} {request.path}: {error.reason}")
    except Exception as error:
        log.exception("%s %s", request.method, request.path)
        return error_answer(500, f"{type(error).__name__}: {error}")


async def object_in(request: web.Request) -> dict[str, Any]:
    """Return the JSON object in the request's body as a dictionary. Raises BadInput if the body is anything else."""
    try:
        body = await request.json()
    except ValueError as error:
        raise BadInput(f"{request.path}: not JSON: {error}") from None
    if not isinstance(body, dict):
        raise BadInput(f"{request.path}: expected a JSON object")
    return body
