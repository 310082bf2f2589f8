"""An HTTP server for the block store on the loopback interface, with a subset of the WebHDFS REST protocol.

Like HttpFS, one server has both roles of the protocol (NameNode and DataNode). Reads are answered directly.
CREATE and APPEND requests without data are redirected to the same server with `data=true`. Errors have the
messages of HttpFS.
"""

from __future__ import annotations

from aiohttp import web

from schedbed.cluster.blocks.block_errors import BlockStoreError
from schedbed.cluster.webhdfs import hadoop_errors, hadoop_token
from schedbed.cluster.webhdfs.attribute_operations import ATTRIBUTE_OPERATIONS
from schedbed.cluster.webhdfs.data_operations import DATA_OPERATIONS
from schedbed.cluster.webhdfs.rest_call import PREFIX, BlockStore, Operations, RestCall
from schedbed.cluster.webhdfs.tree_operations import TREE_OPERATIONS
from schedbed.cluster.wire.http_gate import HttpGate
from schedbed.cluster.wire.port_range import PortRange, listen_at

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
            store.token, hadoop_errors.refusal(), parameter="delegation", unwrap=hadoop_token.secret_of
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
            return hadoop_errors.unknown_operation(operation)
        try:
            return await answer(RestCall(request, request.match_info["path"] or "/", self._store))
        except BlockStoreError as error:
            return hadoop_errors.error_response(error)


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
