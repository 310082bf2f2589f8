"""An HTTP server for the block store on the loopback interface, with a subset of the WebHDFS REST protocol.

Like HttpFS, one server has both roles of the protocol (NameNode and DataNode). Reads are answered directly.
CREATE and APPEND requests without data are redirected to the same server with `data=true`. Errors have the
messages of HttpFS.
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
    """Answer GETFILESTATUS: return the status of a file or directory."""
    found = await call.names.stat(call.path)
    return web.json_response({"FileStatus": file_status(found, call.store.clock)})


async def list_status(call: RestCall) -> web.StreamResponse:
    """Answer LISTSTATUS: return the status of each child of a directory, or the status of a file."""
    return web.json_response(_listing(await _rows(call)))


async def list_status_batch(call: RestCall) -> web.StreamResponse:
    """Answer LISTSTATUS_BATCH: return up to `BATCH` children whose names follow `startAfter`.

    The answer also contains the number of remaining children.
    """
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
    """Answer GETHOMEDIRECTORY: return `/user/USER`, where USER is the user name in the request."""
    return web.json_response({"Path": f"/user/{call.user}"})


async def get_trash_root(call: RestCall) -> web.StreamResponse:
    """Answer GETTRASHROOT: return `/user/USER/.Trash`, where USER is the user name in the request."""
    return web.json_response({"Path": f"/user/{call.user}/.Trash"})


async def mkdirs(call: RestCall) -> web.StreamResponse:
    """Answer MKDIRS: create a directory and its missing parents.

    The requesting user becomes the owner of all new directories. The request's `permission` applies to the
    last directory only.
    """
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
    """Answer RENAME: move a file or directory to `destination`.

    As in HDFS, the result is false if the source does not exist, the destination is an existing file, or the
    parent of the destination does not exist. With `renameoptions`, the first two cases are errors, and a
    missing parent is created. The option OVERWRITE deletes the destination first.
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
    """Answer DELETE: delete a file or directory, including its content if `recursive` is true."""
    return done(await call.names.delete(call.path, recursive=call.flag("recursive")))


async def concat(call: RestCall) -> web.StreamResponse:
    """Answer CONCAT: move the blocks of the files `sources` to the end of a file.

    `sources` is a list of paths separated by commas. These files are removed.
    """
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
    """A WebHDFS server in front of a block store.

    Requests must contain the run's token, either in the header `Authorization: Bearer` or as the parameter
    `delegation`, plain or encoded as a delegation token of Hadoop.
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
        """Start to listen on 127.0.0.1, and return the runner of the server.

        The port is `port` or, if that is 0, any free port in `ports`, or any free port if `ports` is None.
        The runner's `addresses` contain the port, and its `cleanup` ends the server.
        """
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
    """Remove the header Content-Type from JSON responses to Hadoop's client, which then assumes JSON.

    The client in Spark 4.3 lacks a class needed to parse Content-Type, and fails on every response with this
    header.
    """
    if (
        request.headers.get("User-Agent", "").startswith(HADOOP)
        and response.content_type == "application/json"
    ):
        response.headers.pop("Content-Type", None)
