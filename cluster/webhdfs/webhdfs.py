"""An HTTP server for the block store on the loopback interface, with a subset of the WebHDFS REST protocol.

Like HttpFS, it has both roles (NameNode and DataNode), and the same messages. CREATE and APPEND without data
are redirected to itself with `data=true`.
"""

from __future__ import annotations

from pathlib import PurePosixPath

from aiohttp import web

from schedbed.cluster.blocks.block_errors import BlockStoreError, PathExists, PathNotFound, WrongKind
from schedbed.cluster.webhdfs import rest_call
from schedbed.cluster.webhdfs.attribute_operations import ATTRIBUTE_OPERATIONS, file_status, permission_digits
from schedbed.cluster.webhdfs.data_operations import DATA_OPERATIONS
from schedbed.cluster.webhdfs.rest_call import PREFIX, USER, BlockStore, Json, Operations, RestCall, done
from schedbed.cluster.wire.http_gate import HttpGate
from schedbed.cluster.wire.port_range import PortRange, listen_at

# WebHDFS operations on the directory tree: status, creation, renaming, concatenation and deletion.

BATCH = 1000
"""The largest number of entries in an answer to LISTSTATUS_BATCH, as in HDFS."""


async def get_file_status(call: RestCall) -> web.StreamResponse:
    """Answer GETFILESTATUS."""
    found = await call.names.stat(call.path)
    return web.json_response({"FileStatus": file_status(found, call.store.clock)})


async def list_status(call: RestCall) -> web.StreamResponse:
    """Answer LISTSTATUS; for a file with the file itself."""
    return web.json_response(_listing(await _rows(call)))


async def list_status_batch(call: RestCall) -> web.StreamResponse:
    """Answer LISTSTATUS_BATCH: up to `BATCH` names after `startAfter`, and the number of the rest."""
    after = call.text("startAfter") or ""
    rows = [row for row in await _rows(call) if not after or row["pathSuffix"] > after]
    rest = max(0, len(rows) - BATCH)
    listing = {"partialListing": _listing(rows[:BATCH]), "remainingEntries": rest}
    return web.json_response({"DirectoryListing": listing})


async def _rows(call: RestCall) -> list[Json]:
    one_file = (await call.names.stat(call.path))["type"] == "file"
    found = await call.names.list(call.path)
    return [file_status(entry, call.store.clock, "" if one_file else entry["name"]) for entry in found]


def _listing(rows: list[Json]) -> Json:
    return {"FileStatuses": {"FileStatus": rows}}


async def get_content_summary(call: RestCall) -> web.StreamResponse:
    """Answer GETCONTENTSUMMARY: return the total size and the number of files and directories at a path."""
    found = await call.names.content_summary(call.path)
    counts = {"directoryCount": found["directories"], "fileCount": found["files"]}
    space = {"length": found["length"], "spaceConsumed": found["space"]}
    return web.json_response({"ContentSummary": {**counts, **space, "quota": -1, "spaceQuota": -1}})


async def get_home_directory(call: RestCall) -> web.StreamResponse:
    """Answer GETHOMEDIRECTORY."""
    return web.json_response({"Path": f"/user/{call.user}"})


async def get_trash_root(call: RestCall) -> web.StreamResponse:
    """Answer GETTRASHROOT."""
    return web.json_response({"Path": f"/user/{call.user}/.Trash"})


async def mkdirs(call: RestCall) -> web.StreamResponse:
    """Answer MKDIRS. The user owns all new directories; `permission` applies to the last one only."""
    permission = permission_digits(call, None)
    made = await _missing(call)
    await call.names.mkdirs(call.path)
    if call.user != USER:
        for path in made:
            await call.names.set_attributes(path, {"owner": call.user})
    if permission is not None and made:
        await call.names.set_attributes(call.path, {"permission": permission})
    return done(True)


async def _missing(call: RestCall) -> list[str]:
    """Return the directories on the request's path that do not exist yet, the deepest first."""
    path, found = PurePosixPath(call.path), []
    while str(path) != "/" and await call.store.find(str(path)) is None:
        found.append(str(path))
        path = path.parent
    return found


async def rename(call: RestCall) -> web.StreamResponse:
    """Answer RENAME. As in HDFS: false if the source or the destination's parent is missing, or for an
    existing file.

    With `renameoptions`, the first and the last are errors, and the parent is created. OVERWRITE deletes the
    destination first.
    """
    destination = call.needed("destination", "an absolute path")
    strict, there = (call.text("renameoptions") or "").upper(), await call.store.find(destination)
    if strict:
        await call.names.stat(call.path)
        if there is not None and strict == "OVERWRITE":
            await call.names.delete(destination)
        await call.names.rename(call.path, destination)
        return done(True)
    if there is None and await call.store.find(str(PurePosixPath(destination).parent)) is None:
        return done(False)
    try:
        await call.names.rename(call.path, destination)
    except (PathNotFound, PathExists, WrongKind):
        return done(False)
    return done(True)


async def delete(call: RestCall) -> web.StreamResponse:
    """Answer DELETE."""
    return done(await call.names.delete(call.path, recursive=call.flag("recursive")))


async def concat(call: RestCall) -> web.StreamResponse:
    """Answer CONCAT: append the blocks of `sources`, which are removed."""
    await call.names.concat(call.path, call.needed("sources", "paths separated by commas").split(","))
    return web.Response()


TREE_OPERATIONS: Operations = {
    ("GET", "GETFILESTATUS"): get_file_status,
    ("GET", "LISTSTATUS"): list_status,
    ("GET", "LISTSTATUS_BATCH"): list_status_batch,
    ("GET", "GETCONTENTSUMMARY"): get_content_summary,
    ("GET", "GETHOMEDIRECTORY"): get_home_directory,
    ("GET", "GETTRASHROOT"): get_trash_root,
    ("PUT", "MKDIRS"): mkdirs,
    ("PUT", "RENAME"): rename,
    ("POST", "CONCAT"): concat,
    ("DELETE", "DELETE"): delete,
}


OPERATIONS: Operations = {**TREE_OPERATIONS, **DATA_OPERATIONS, **ATTRIBUTE_OPERATIONS}

HADOOP = "Java/"
"""The beginning of the User-Agent of Hadoop's client."""


class WebHdfs:
    """A WebHDFS server. Requests must contain the run's token.

    It is in the header `Authorization: Bearer` or the parameter `delegation`, plain or as a delegation token
    of Hadoop.
    """

    def __init__(self, store: BlockStore) -> None:
        self._store = store
        self._gate = HttpGate(
            store.token, rest_call.refusal(), parameter="delegation", unwrap=rest_call.secret_of
        )

    def application(self) -> web.Application:
        """Return the aiohttp application that answers WebHDFS requests."""
        app = web.Application(middlewares=[self._gate.middleware()], client_max_size=0)
        app.on_response_prepare.append(_untype_for_hadoop)
        app.router.add_route("*", PREFIX + "{path:.*}", self._handle)
        return app

    async def serve(self, port: int = 0, ports: PortRange | None = None) -> web.AppRunner:
        """Listen on 127.0.0.1 at `port`, or if 0 any free one (in `ports`). `cleanup` of the runner ends it."""
        return await self._gate.serve(self.application(), listen_at("127.0.0.1", port, ports))

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        operation = request.query.get("op", "").upper()
        answer = OPERATIONS.get((request.method, operation))
        if answer is None:
            return rest_call.unknown_operation(operation)
        try:
            return await answer(RestCall(request, request.match_info["path"] or "/", self._store))
        except BlockStoreError as error:
            return rest_call.error_response(error)


async def _untype_for_hadoop(request: web.Request, response: web.StreamResponse) -> None:
    """Remove Content-Type for Hadoop's client, which then assumes JSON.

    The client in Spark 4.3 lacks a class that parses it, and fails on every response with this header.
    """
    if (
        request.headers.get("User-Agent", "").startswith(HADOOP)
        and response.content_type == "application/json"
    ):
        response.headers.pop("Content-Type", None)
