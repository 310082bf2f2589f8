"""JSON over HTTP: a middleware that turns exceptions into error responses, and a parser of request bodies."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from schedbed.cluster.blocks.block_errors import BlockStoreError
from schedbed.cluster.masters import MasterGone
from schedbed.deploy.failures import Denied, RunFailed
from schedbed.tasks.errors import BadInput

log = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def error_answer(status: int, line: str) -> web.Response:
    """Return an HTTP response with the given status and the JSON body `{"error": line}`."""
    return web.json_response({"error": line}, status=status)


@web.middleware
async def errors_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Handle a request, and turn an exception of the handler into the response `{"error": message}`.

    The status is 400, 404 or 413 for bad input, and 403 or 429 for a missing permission or a used-up quota.
    It is 503 if the cluster cannot carry out the request, and 500 for any other exception.
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
    """Return the JSON object in the request's body as a dictionary. Raises BadInput if the body is anything
    else.
    """
    try:
        body = await request.json()
    except ValueError as error:
        raise BadInput(f"{request.path}: not JSON: {error}") from None
    if not isinstance(body, dict):
        raise BadInput(f"{request.path}: expected a JSON object")
    return body
