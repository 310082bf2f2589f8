"""A WebHDFS request with its parameters, and the block store that serves the request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from schedbed.cluster.blocks.block_errors import BadPath, PathNotFound
from schedbed.cluster.blocks.dataplane import DataPlane
from schedbed.cluster.clock import RunClock
from schedbed.cluster.masters import NameNodeDoor
from schedbed.cluster.spec import BlockSettings
from schedbed.cluster.wire.tls import Tls

PREFIX = "/webhdfs/v1"
USER = "schedbed"
"""The user of a request without a user name, and the default owner of files."""

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class BlockStore:
    """The block store that a WebHDFS server offers to clients.

    `name_node` is the interface to the NameNode. `token` and `tls` protect connections to agents. `settings`
    contains the default block size and replication of new files. `clock` converts run times to times of day.
    """

    name_node: NameNodeDoor
    token: str
    settings: BlockSettings
    clock: RunClock
    tls: Tls | None = None

    async def plane(self) -> DataPlane:
        """Return a client that transfers blocks to and from the agents of all live nodes."""
        peers = {node: about["url"] for node, about in (await self.name_node.nodes()).items()}
        return DataPlane(peers, self.token, self.tls)

    async def find(self, path: str) -> Json | None:
        """Return the status of a file or directory, or None if the path does not exist."""
        try:
            return await self.name_node.stat(path)
        except PathNotFound:
            return None


@dataclass(frozen=True, slots=True)
class RestCall:
    """A WebHDFS request for the file or directory `path` in the block store `store`."""

    request: web.Request
    path: str
    store: BlockStore

    @property
    def names(self) -> NameNodeDoor:
        """Return the interface to the NameNode that manages the files of the block store."""
        return self.store.name_node

    @property
    def user(self) -> str:
        """Return the user name in the request, or a default name. The name is not verified."""
        return self.text("doas") or self.text("user.name") or USER

    def text(self, name: str) -> str | None:
        """Return a parameter of the request, or None if the parameter is missing, empty or `null`."""
        value = self.request.query.get(name)
        return None if value in (None, "", "null") else value

    def needed(self, name: str, what: str) -> str:
        """Return a required parameter of the request.

        Raises BadPath if the parameter is missing. `what` describes the expected value for the error message.
        """
        value = self.text(name)
        if value is None:
            raise bad_value(name, "nothing", what)
        return value

    def number(self, name: str, default: Any, least: int = 0) -> Any:
        """Return a parameter of the request as an integer, or `default` if the parameter is missing.

        Raises BadPath if the parameter is not an integer or is less than `least`.
        """
        text = self.text(name)
        if text is None:
            return default
        if not text.isdecimal() or int(text) < least:
            raise bad_value(name, text, f"a whole number of at least {least}")
        return int(text)

    def flag(self, name: str) -> bool:
        """Return whether a parameter of the request is `true`."""
        return self.request.query.get(name, "false").lower() == "true"


Operation = Callable[[RestCall], Awaitable[web.StreamResponse]]
Operations = Mapping[tuple[str, str], Operation]
"""Handlers by method and `op`."""


def bad_value(name: str, given: str, expected: str) -> BadPath:
    """Return an exception for the parameter `name`, whose value is `given` instead of `expected`.

    The message is worded as in HttpFS.
    """
    return BadPath(f'Invalid value for webhdfs parameter "{name}": {given}, expected {expected}')


def done(value: bool) -> web.Response:
    """Return the HTTP response to an operation whose result is only true or false: {"boolean": value}."""
    return web.json_response({"boolean": value})
