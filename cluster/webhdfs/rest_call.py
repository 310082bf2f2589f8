"""One WebHDFS request with its parameters, and the block store that the request is about."""

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
"""Who a request without a user's name comes from, and whose everything is that nobody was given."""

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class BlockStore:
    """A NameNode and the way to the agents. `settings` give block size and replication of files that say nothing."""

    name_node: NameNodeDoor
    token: str
    settings: BlockSettings
    clock: RunClock
    tls: Tls | None = None

    async def plane(self) -> DataPlane:
        """Return a client of the agents that live now."""
        peers = {node: about["url"] for node, about in (await self.name_node.nodes()).items()}
        return DataPlane(peers, self.token, self.tls)

    async def find(self, path: str) -> Json | None:
        """Return the status of a file or directory, None when there is none."""
        try:
            return await self.name_node.stat(path)
        except PathNotFound:
            return None


@dataclass(frozen=True, slots=True)
class RestCall:
    """A request for the file or directory `path`."""

    request: web.Request
    path: str
    store: BlockStore

    @property
    def names(self) -> NameNodeDoor:
        """Return the NameNode."""
        return self.store.name_node

    @property
    def user(self) -> str:
        """Return the name that the request gives, which nobody verifies: whoever shows the token is trusted."""
        return self.text("doas") or self.text("user.name") or USER

    def text(self, name: str) -> str | None:
        """Return a parameter; None when the parameter is missing, empty or null."""
        value = self.request.query.get(name)
        return None if value in (None, "", "null") else value

    def needed(self, name: str, what: str) -> str:
        """Return a parameter; raise BadPath, which says what was expected, without one."""
        value = self.text(name)
        if value is None:
            raise bad_value(name, "nothing", what)
        return value

    def number(self, name: str, default: Any, least: int = 0) -> Any:
        """Return a parameter as a whole number of at least `least`. Raises BadPath."""
        text = self.text(name)
        if text is None:
            return default
        if not text.isdecimal() or int(text) < least:
            raise bad_value(name, text, f"a whole number of at least {least}")
        return int(text)

    def flag(self, name: str) -> bool:
        """Return whether a parameter is true."""
        return self.request.query.get(name, "false").lower() == "true"


Operation = Callable[[RestCall], Awaitable[web.StreamResponse]]
Operations = Mapping[tuple[str, str], Operation]
"""What answers a method with an `op`."""


def bad_value(name: str, given: str, expected: str) -> BadPath:
    """Return the error for a parameter, in HttpFS's words."""
    return BadPath(f'Invalid value for webhdfs parameter "{name}": {given}, expected {expected}')


def done(value: bool) -> web.Response:
    """Return the answer that says whether something was done."""
    return web.json_response({"boolean": value})
