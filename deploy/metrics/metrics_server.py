"""The HTTP server of a run's Prometheus metrics, on the loopback interface, protected by a token."""

from __future__ import annotations

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from schedbed.cluster.wire.http_gate import HttpGate, Refusal
from schedbed.deploy.http_thread import HttpThread
from schedbed.deploy.metrics.run_meter import RunMeter


def serve_metrics(meter: RunMeter, token: str, port: int) -> HttpThread:
    """Return a context that serves `/metrics` at the port; 0 means any free port.

    Requests need the header `Authorization: Bearer TOKEN`.
    """
    registry = CollectorRegistry()
    registry.register(meter)  # pyright: ignore[reportArgumentType] - only `collect` is called

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    gate = HttpGate(token, Refusal("text/plain", b"no valid token"))
    app = web.Application(middlewares=[gate.middleware()])
    app.router.add_get("/metrics", metrics)
    return HttpThread(app, gate, port=port)
