"""The block store for ordinary clients: a subset of the WebHDFS REST protocol, on the loopback interface only.

As HttpFS does, it plays both roles of the protocol: reads are answered directly, and CREATE or APPEND without data is
redirected to the same server with `data=true`.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

from aiohttp import web

from schedbed.cluster.blocks.block_errors import (
    BadPath,
    BlockStoreError,
    BlockUnavailable,
    NoNodes,
    PathExists,
    PathNotFound,
    WrongKind,
)
from schedbed.cluster.blocks.dataplane import PIECE_BYTES, DataPlane
from schedbed.cluster.blocks.loader import append_file, store_file
from schedbed.cluster.clock import RunClock
from schedbed.cluster.masters import NameNodeDoor
from schedbed.cluster.spec import BlockSettings
from schedbed.cluster.wire.http_gate import HttpGate, Refusal
from schedbed.cluster.wire.port_range import PortRange, listen_at
from schedbed.cluster.wire.tls import Tls

PREFIX = "/webhdfs/v1"
USER = "schedbed"

Json = dict[str, Any]
Handler = Callable[["WebHdfs", web.Request, str], Awaitable[web.StreamResponse]]

_ERRORS: tuple[tuple[type[BlockStoreError], int, str], ...] = (
    (PathNotFound, 404, "java.io.FileNotFoundException"),
    (BadPath, 400, "java.lang.IllegalArgumentException"),
    (PathExists, 403, "org.apache.hadoop.fs.FileAlreadyExistsException"),
    (WrongKind, 403, "java.io.IOException"),
    (NoNodes, 403, "java.io.IOException"),
    (BlockUnavailable, 403, "org.apache.hadoop.hdfs.BlockMissingException"),
    (BlockStoreError, 403, "java.io.IOException"),
)


class WebHdfs:
    """Answers WebHDFS requests with the help of a NameNode and the agents.

    The token comes as parameter `delegation` or as `Authorization: Bearer`. `clock` is the run's. `settings`: default
    block size and replication of new files. `tls`: keys for connections to agents.
    """

    def __init__(
        self,
        name_node: NameNodeDoor,
        token: str,
        settings: BlockSettings,
        clock: RunClock,
        tls: Tls | None = None,
    ) -> None:
        self._name_node = name_node
        self._token = token
        self._tls = tls
        self._gate = HttpGate(token, _refusal(), parameter="delegation")
        self._settings = settings
        self._clock = clock

    def application(self) -> web.Application:
        """Return the aiohttp application."""
        app = web.Application(middlewares=[self._gate.middleware()], client_max_size=0)
        app.router.add_route("*", PREFIX + "{path:.*}", self._handle)
        return app

    async def serve(self, port: int = 0, ports: PortRange | None = None) -> web.AppRunner:
        """Listen on 127.0.0.1, with port 0 at any of `ports`. Return the runner: `addresses` has the port, `cleanup`
        ends it."""
        return await self._gate.serve(self.application(), listen_at("127.0.0.1", port, ports))

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        method, operation = request.method, request.query.get("op", "").upper()
        handler = OPERATIONS.get((method, operation))
        if handler is None:
            message = f'Invalid value for webhdfs parameter "op": {operation!r} with {method}'
            return _error(400, "java.lang.IllegalArgumentException", message)
        try:
            return await handler(self, request, request.match_info["path"] or "/")
        except BlockStoreError as error:
            for kind, status, name in _ERRORS:
                if isinstance(error, kind):
                    return _error(status, name, str(error))
            raise

    # -- status ----------------------------------------------------------------------------------------------

    async def get_file_status(self, _: web.Request, path: str) -> web.StreamResponse:
        """Answer GETFILESTATUS."""
        found = await self._name_node.stat(path)
        return web.json_response({"FileStatus": self._file_status(found, "")})

    async def list_status(self, _: web.Request, path: str) -> web.StreamResponse:
        """Answer LISTSTATUS."""
        top = await self._name_node.stat(path)
        found = await self._name_node.list(path)
        one_file = top["type"] == "file"
        rows = [self._file_status(entry, "" if one_file else entry["name"]) for entry in found]
        return web.json_response({"FileStatuses": {"FileStatus": rows}})

    def _file_status(self, entry: Mapping[str, Any], suffix: str) -> Json:
        is_file = entry["type"] == "file"
        modified_ms = round(self._clock.time_of_day_s(entry["modified_s"]) * 1000)
        return {
            "accessTime": modified_ms if is_file else 0,
            "blockSize": entry["block_bytes"],
            "childrenNum": entry["children"],
            "group": USER,
            "length": entry["length"],
            "modificationTime": modified_ms,
            "owner": USER,
            "pathSuffix": suffix,
            "permission": "644" if is_file else "755",
            "replication": entry["replication"],
            "type": "FILE" if is_file else "DIRECTORY",
        }

    async def get_content_summary(self, _: web.Request, path: str) -> web.StreamResponse:
        """Answer GETCONTENTSUMMARY."""
        found = await self._name_node.content_summary(path)
        counts = {"directoryCount": found["directories"], "fileCount": found["files"]}
        space = {"length": found["length"], "spaceConsumed": found["space"]}
        return web.json_response({"ContentSummary": {**counts, **space, "quota": -1, "spaceQuota": -1}})

    async def get_file_block_locations(self, request: web.Request, path: str) -> web.StreamResponse:
        """Answer GETFILEBLOCKLOCATIONS."""
        offset, length = _number(request, "offset", 0), _number(request, "length", None)
        nodes = await self._name_node.nodes()
        blocks = await self._name_node.locate(path, offset=offset, length=length)
        rows = [_block_location(block, nodes) for block in blocks]
        return web.json_response({"BlockLocations": {"BlockLocation": rows}})

    async def get_home_directory(self, _: web.Request, __: str) -> web.StreamResponse:
        """Answer GETHOMEDIRECTORY."""
        return web.json_response({"Path": f"/user/{USER}"})

    # -- data ------------------------------------------------------------------------------------------------

    async def open(self, request: web.Request, path: str) -> web.StreamResponse:
        """Answer OPEN: the bytes from `offset`, at most `length`."""
        size = (await self._name_node.stat(path))["length"]
        offset, length = _number(request, "offset", 0), _number(request, "length", None)
        if offset > size:
            raise BadPath(f"{path}: offset={offset} is beyond its end ({size} bytes)")
        end = size if length is None else min(size, offset + length)
        blocks = await self._name_node.locate(path, offset=offset, length=end - offset)
        async with DataPlane(await self._peers(), self._token, self._tls) as plane:
            pieces = plane.read(blocks, offset, end)
            first = await anext(pieces, b"")  # what fails at once is still answered as an error
            response = web.StreamResponse(headers={"Content-Type": "application/octet-stream"})
            response.content_length = end - offset
            await response.prepare(request)
            await response.write(first)
            async for piece in pieces:
                await response.write(piece)
        await response.write_eof()
        return response

    async def create(self, request: web.Request, path: str) -> web.StreamResponse:
        """Answer CREATE: store the data of the request; without data, redirect (or return `Location`) for the second
        step."""
        if _brings_no_data(request):
            return self._second_step(request)
        settings = BlockSettings(
            size_bytes=_number(request, "blocksize", self._settings.size_bytes, least=1),
            replication=_number(request, "replication", self._settings.replication, least=1),
        )
        if _flag(request, "overwrite"):
            await self._make_room(path)
        async with DataPlane(await self._peers(), self._token, self._tls) as plane:
            await store_file(path, _pieces(request), self._name_node, plane, settings)
        return web.Response(status=201, headers={"Location": f"{request.url.origin()}{PREFIX}{path}"})

    async def append(self, request: web.Request, path: str) -> web.StreamResponse:
        """Answer APPEND, in two steps as CREATE. The added bytes begin a new block."""
        if _brings_no_data(request):
            return self._second_step(request)
        old = await self._name_node.stat(path)
        size_bytes = old["block_bytes"] or self._settings.size_bytes
        settings = BlockSettings(size_bytes=size_bytes, replication=old["replication"])
        async with DataPlane(await self._peers(), self._token, self._tls) as plane:
            await append_file(path, _pieces(request), self._name_node, plane, settings)
        return web.Response()

    def _second_step(self, request: web.Request) -> web.Response:
        location = str(request.url.update_query(data="true"))
        if _flag(request, "noredirect"):
            return web.json_response({"Location": location})
        return web.Response(status=307, headers={"Location": location})

    async def _make_room(self, path: str) -> None:
        try:
            old = await self._name_node.stat(path)
        except PathNotFound:
            return
        if old["type"] == "file":
            await self._name_node.delete(path)

    async def _peers(self) -> dict[str, str]:
        return {node: about["url"] for node, about in (await self._name_node.nodes()).items()}

    # -- the tree --------------------------------------------------------------------------------------------

    async def mkdirs(self, _: web.Request, path: str) -> web.StreamResponse:
        """Answer MKDIRS."""
        await self._name_node.mkdirs(path)
        return web.json_response({"boolean": True})

    async def rename(self, request: web.Request, path: str) -> web.StreamResponse:
        """Answer RENAME: false, as in HDFS, if the source is missing or the destination exists."""
        destination = request.query.get("destination")
        if not destination:
            raise BadPath("destination: expected an absolute path")
        try:
            await self._name_node.rename(path, destination)
        except (PathNotFound, PathExists, WrongKind):
            return web.json_response({"boolean": False})
        return web.json_response({"boolean": True})

    async def delete(self, request: web.Request, path: str) -> web.StreamResponse:
        """Answer DELETE."""
        done = await self._name_node.delete(path, recursive=_flag(request, "recursive"))
        return web.json_response({"boolean": done})


OPERATIONS: Mapping[tuple[str, str], Handler] = {
    ("GET", "GETFILESTATUS"): WebHdfs.get_file_status,
    ("GET", "LISTSTATUS"): WebHdfs.list_status,
    ("GET", "GETCONTENTSUMMARY"): WebHdfs.get_content_summary,
    ("GET", "GETFILEBLOCKLOCATIONS"): WebHdfs.get_file_block_locations,
    ("GET", "GETHOMEDIRECTORY"): WebHdfs.get_home_directory,
    ("GET", "OPEN"): WebHdfs.open,
    ("PUT", "CREATE"): WebHdfs.create,
    ("POST", "APPEND"): WebHdfs.append,
    ("PUT", "MKDIRS"): WebHdfs.mkdirs,
    ("PUT", "RENAME"): WebHdfs.rename,
    ("DELETE", "DELETE"): WebHdfs.delete,
}


def _brings_no_data(request: web.Request) -> bool:
    return request.query.get("data") != "true" and not request.body_exists


async def _pieces(request: web.Request) -> AsyncIterator[bytes]:
    async for piece in request.content.iter_chunked(PIECE_BYTES):
        yield piece


def _block_location(block: Mapping[str, Any], nodes: Mapping[str, Any]) -> Json:
    holders = [node for node in block["nodes"] if node in nodes]
    names = [nodes[node]["url"].rpartition("/")[2] for node in holders]
    racks = [nodes[node]["rack"] for node in holders]
    return {
        "cachedHosts": [],
        "corrupt": not holders,
        "hosts": holders,
        "length": block["length"],
        "names": names,
        "offset": block["offset"],
        "storageTypes": ["DISK"] * len(holders),
        "topologyPaths": [f"/{rack}/{name}" for rack, name in zip(racks, names, strict=True)],
    }


def _number(request: web.Request, name: str, default: Any, least: int = 0) -> Any:
    text = request.query.get(name)
    if text is None or text == "null":
        return default
    if not text.isdecimal() or int(text) < least:
        raise BadPath(f"{name}={text}: expected a whole number of at least {least}")
    return int(text)


def _flag(request: web.Request, name: str) -> bool:
    return request.query.get(name, "false").lower() == "true"


def _error(status: int, java_class: str, message: str) -> web.Response:
    return web.json_response(_remote_exception(java_class, message), status=status)


def _remote_exception(java_class: str, message: str) -> Json:
    name = java_class.replace("$", ".").rpartition(".")[2]
    return {"RemoteException": {"exception": name, "javaClassName": java_class, "message": message}}


def _refusal() -> Refusal:
    java_class = "org.apache.hadoop.security.token.SecretManager$InvalidToken"
    return Refusal("application/json", json.dumps(_remote_exception(java_class, "no valid token")).encode())
