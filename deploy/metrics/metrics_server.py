"""The HTTP server for a run's Prometheus metrics. It listens on the loopback interface and requires a
token.
"""

from __future__ import annotations

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from schedbed.cluster.wire.http_gate import HttpGate, Refusal
from schedbed.deploy.http_thread import HttpThread
from schedbed.deploy.metrics.run_meter import RunMeter


def serve_metrics(meter: RunMeter, token: str, port: int) -> HttpThread:
    """Return a context manager that serves the metrics at the path `/metrics`. Port 0 means any free port.

    Requests must contain the header `Authorization: Bearer TOKEN` with the given token.
    """
    registry = CollectorRegistry()
    registry.register(meter)  # pyright: ignore[reportArgumentType] - only `collect` is called

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    gate = HttpGate(token, Refusal("text/plain", b"no valid token"))
    app = web.Application(middlewares=[gate.middleware()])
    app.router.add_get("/metrics", metrics)
    return HttpThread(app, gate, port=port)
