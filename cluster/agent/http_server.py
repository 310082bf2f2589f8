"""The agent's HTTP server: routes, token check, and endpoints for attempts and reduces."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import logging
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aiohttp import WSMsgType, web

from schedbed.cluster.agent.datanode import DataNode
from schedbed.cluster.agent.folder import AgentDir, BadRequest, checked_id, open_plain
from schedbed.cluster.agent.link_budgets import Peers
from schedbed.cluster.agent.replica_keeper import Keeper
from schedbed.cluster.tasktracker import ATTEMPT_CALLS
from schedbed.cluster.wire.http_gate import HttpGate, Refusal

if TYPE_CHECKING:
    from aiohttp.typedefs import Handler

Message = dict[str, Any]

POLL_S = 5.0
CALL_S = 60.0
READ_BYTES = 2**20


def make_gate(token: str) -> HttpGate:
    return HttpGate(token, Refusal("text/plain", b"this needs the run's token"))


def make_app(
    gate: HttpGate,
    control: Control,
    data: DataNode,
    keeper: Keeper,
    shuffle: ShuffleServer,
    local: LocalEndpoints,
) -> web.Application:
    """Return the web application with all routes. The arguments hold the methods that serve them."""
    app = web.Application(middlewares=[gate.middleware(), _told], client_max_size=2**24)
    app.router.add_get("/control", control.serve, allow_head=False)
    app.router.add_get("/blocks/{block}", data.get, allow_head=False)
    app.router.add_put("/blocks/{block}", data.put, expect_handler=data.expect)
    app.router.add_get("/blocks/{block}/checksums", data.checksums, allow_head=False)
    app.router.add_post("/blocks/{block}/keep", keeper.keep)
    app.router.add_get("/shuffle/{attempt}/{partition}", shuffle.get, allow_head=False)
    app.router.add_get("/jobs/{job}/outputs", local.outputs, allow_head=False)
    app.router.add_post("/call/{method}", local.call)
    app.router.add_post("/fetch_failed", local.fetch_failed)
    app.router.add_get("/peers", local.peers, allow_head=False)
    return app


@web.middleware
async def _told(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Handle a request. A BadRequest, or a lost connection, becomes status 400."""
    try:
        return await handler(request)
    except BadRequest as error:
        raise web.HTTPBadRequest(text=str(error)) from None
    except ConnectionError:  # The client has closed the connection, so no response would arrive.
        raise web.HTTPBadRequest(text="the connection was lost") from None


class ShuffleServer:
    """The HTTP endpoint from which reduces fetch map outputs, stored in folders `mapout/<attempt>/`."""

    def __init__(self, where: AgentDir, peers: Peers, data: DataNode) -> None:
        self._where = where
        self._peers = peers
        self._data = data
        self._indices: dict[str, list[tuple[int, int]]] = {}

    async def get(self, request: web.Request) -> web.StreamResponse:
        """Serve `GET /shuffle/{attempt}/{partition}`: send one partition of a map's output, or status 404."""
        attempt, partition = request.match_info["attempt"], request.match_info["partition"]
        sender = await self._peers.admit(request)
        stream = self._data.sending(sender)
        offset, length = self._find(attempt, partition)
        try:
            pieces = self._read(attempt, offset, length)
            first = next(pieces, b"")
        except FileNotFoundError:
            raise web.HTTPNotFound(text=f"no output of {attempt} here") from None
        response = web.StreamResponse()
        response.content_length = length
        response.content_type = "application/octet-stream"
        await response.prepare(request)
        await self._data.send(response, itertools.chain((first,), pieces), stream)
        return response

    def forget_job(self, job: str) -> None:
        """Discard the indices of a job's map outputs, which will be deleted."""
        for attempt in [attempt for attempt in self._indices if attempt.startswith(f"{job}_")]:
            del self._indices[attempt]

    def _find(self, attempt: str, partition: str) -> tuple[int, int]:
        index = self._indices.get(attempt)
        if index is None:
            try:
                with open_plain(self._where.map_output(attempt) / "index.json") as file:
                    raw = json.loads(file.readall())
            except (OSError, ValueError):
                raise web.HTTPNotFound(text=f"no output of {attempt} here") from None
            index = self._indices[attempt] = [(int(offset), int(length)) for offset, length in raw]
        if not partition.isascii() or not partition.isdigit() or int(partition) >= len(index):
            raise web.HTTPNotFound(text=f"{attempt} has no partition {partition[:20]!r}")
        return index[int(partition)]

    def _read(self, attempt: str, offset: int, length: int) -> Iterator[bytes]:
        with open_plain(self._where.map_output(attempt) / "data") as file:
            file.seek(offset)
            while length > 0:
                piece = file.read(min(READ_BYTES, length))
                if not piece:
                    raise web.HTTPNotFound(text=f"the output of {attempt} ends early")
                length -= len(piece)
                yield piece


class LocalEndpoints:
    """The HTTP endpoints for this node's attempts. Calls to the masters go through the TaskTracker."""

    def __init__(self, control: Control, board: OutputBoard, peers: Peers) -> None:
        self._control = control
        self._board = board
        self._peers = peers
        self._numbers = itertools.count(1)
        self._calls: dict[int, asyncio.Future[Any]] = {}

    async def outputs(self, request: web.Request) -> web.Response:
        """Serve `GET /jobs/{job}/outputs?cursor=K`: the map outputs after the first K, as a long poll."""
        job = checked_id(request.match_info["job"], "job")
        cursor = request.query.get("cursor", "0")
        if not cursor.isascii() or not cursor.isdigit():
            raise BadRequest(f"cursor: {cursor[:20]!r}, expected a number")
        return web.json_response(await self._board.read(job, int(cursor), POLL_S))

    async def call(self, request: web.Request) -> web.Response:
        """Serve `POST /call/{method}`, a call to the masters: 502 if they return an error, 504 for no answer."""
        method = request.match_info["method"]
        if method not in ATTEMPT_CALLS:
            raise web.HTTPNotFound(text=f"{method[:40]!r} is none of {', '.join(ATTEMPT_CALLS)}")
        args = await _json_object(request)
        number = next(self._numbers)
        future = self._calls[number] = asyncio.get_running_loop().create_future()
        self._control.say({"type": "call", "id": number, "method": method, "args": args})
        try:
            answer = await asyncio.wait_for(future, CALL_S)
        except TimeoutError:
            raise web.HTTPGatewayTimeout(text=f"{method}: no answer within {CALL_S:.0f} s") from None
        finally:
            del self._calls[number]
        if "error" in answer:
            raise web.HTTPBadGateway(text=str(answer["error"]))
        return web.json_response(answer["result"])

    def answer(self, message: Message) -> None:
        """Pass the masters' answer to the request that waits for it. Drop the answer if the request timed out."""
        future = self._calls.get(message["id"])
        if future is not None and not future.done():
            future.set_result({name: message[name] for name in ("result", "error") if name in message})

    async def fetch_failed(self, request: web.Request) -> web.Response:
        """Serve `POST /fetch_failed` {reduce_attempt, map_attempt}, reported with the next heartbeat."""
        raw = await _json_object(request)
        try:
            names = {name: checked_id(str(raw[name]), name) for name in ("reduce_attempt", "map_attempt")}
        except KeyError as error:
            raise BadRequest(f"fetch_failed: {error} is missing") from None
        self._control.say({"type": "fetch_failed", **names})
        return web.json_response({})

    async def peers(self, _request: web.Request) -> web.Response:
        """Serve `GET /peers`: URLs and racks of nodes, and those that a partition blocks."""
        known = {"peers": self._peers.urls, "racks": self._peers.racks}
        return web.json_response({**known, "blocked": sorted(self._peers.blocked)})


async def _json_object(request: web.Request) -> Message:
    try:
        value = await request.json()
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise BadRequest("body: expected a JSON object")
    return value


# The agent's end of the control connection to the TaskTracker, a websocket for JSON messages in order.
#
# Messages that are queued while no TaskTracker is connected are sent over the next connection.

log = logging.getLogger(__name__)

CLOSE_S = 1.0  # seconds to wait for a TaskTracker that no longer answers a close


class Control:
    """A websocket server for the TaskTracker. A new connection replaces the last, and starts with `hello()`.

    `handle` gets the messages. Its BadRequest, KeyError, TypeError, ValueError and OSError are logged.
    """

    def __init__(self, hello: Callable[[], Message], handle: Callable[[Message], None]) -> None:
        self._hello = hello
        self._handle = handle
        self._unsent: deque[Message] = deque()
        self._due = asyncio.Event()
        self._socket: web.WebSocketResponse | None = None

    @property
    def ready(self) -> bool:
        return self._socket is not None and not self._socket.closed and not self._unsent

    def say(self, message: Message) -> None:
        """Queue a message for the TaskTracker, which may connect later."""
        self._unsent.append(message)
        self._due.set()

    async def serve(self, request: web.Request) -> web.WebSocketResponse:
        """Serve `GET /control`: open a websocket, and exchange messages until the connection ends."""
        socket = web.WebSocketResponse(timeout=CLOSE_S, max_msg_size=0, compress=False)
        await socket.prepare(request)
        before, self._socket = self._socket, socket
        if before is not None:
            await before.close()
        await socket.send_str(json.dumps(self._hello()))
        sending = asyncio.create_task(self._send(socket))
        try:
            async for message in socket:
                if message.type is WSMsgType.TEXT:
                    self._hear(message.data)
        finally:
            sending.cancel()
            if self._socket is socket:
                self._socket = None
        return socket

    async def close(self) -> None:
        if self._socket is not None:
            await self._socket.close()

    async def _send(self, socket: web.WebSocketResponse) -> None:
        with contextlib.suppress(ConnectionError):
            while True:
                while self._unsent:
                    await socket.send_str(json.dumps(self._unsent[0]))
                    self._unsent.popleft()
                self._due.clear()
                await self._due.wait()

    def _hear(self, text: str) -> None:
        try:
            message = json.loads(text)
            if not isinstance(message, dict):
                raise BadRequest("expected an object")
            self._handle(message)
        except (BadRequest, KeyError, TypeError, ValueError, OSError) as error:
            log.warning("message not understood: %s: %r", text[:200], error)


# The locations of map outputs that the JobTracker has announced, as one list per job, which only grows.
#
# A reduce reads new entries repeatedly. Its cursor is the number of entries that it has read.


@dataclass(slots=True)
class _Job:
    outputs: list[Message] = field(default_factory=list)
    all_done: bool = False
    news: asyncio.Event = field(default_factory=asyncio.Event)


class OutputBoard:
    """The locations of each job's map outputs, read by long polls. A later entry replaces that of the same map."""

    def __init__(self) -> None:
        self._jobs: dict[str, _Job] = {}

    def add(self, job: str, outputs: list[Message], all_done: bool) -> None:
        """Append a job's map outputs and wake readers. `all_done` means that all its maps have finished."""
        known = self._jobs.setdefault(job, _Job())
        known.outputs.extend(outputs)
        known.all_done = all_done
        known.news.set()
        known.news = asyncio.Event()

    def forget(self, job: str) -> None:
        if known := self._jobs.pop(job, None):
            known.news.set()

    async def read(self, job: str, cursor: int, patience_s: float) -> Message:
        """Return {"cursor", "outputs", "all_done"} after `cursor`. Waits up to `patience_s` seconds for news."""
        known = self._jobs.setdefault(job, _Job())
        if cursor >= len(known.outputs) and not known.all_done:
            try:
                await asyncio.wait_for(known.news.wait(), patience_s)
            except TimeoutError:
                pass
        return {
            "cursor": len(known.outputs),
            "outputs": known.outputs[cursor:],
            "all_done": known.all_done,
        }
