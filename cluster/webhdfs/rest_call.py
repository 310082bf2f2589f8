"""A WebHDFS request with its parameters, and the block store that serves the request."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from schedbed.cluster.blocks.block_errors import (
    BadPath,
    BlockStoreError,
    BlockUnavailable,
    IsDirectory,
    NotDirectory,
    NotEmpty,
    PathExists,
    PathNotFound,
)
from schedbed.cluster.blocks.dataplane import DataPlane
from schedbed.cluster.clock import RunClock
from schedbed.cluster.masters import NameNodeDoor
from schedbed.cluster.spec import BlockSettings
from schedbed.cluster.wire.http_gate import Refusal
from schedbed.cluster.wire.tls import Tls

PREFIX = "/webhdfs/v1"
USER = "schedbed"
"""The user of a request without a user name, and the default owner of files."""

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class BlockStore:
    """The block store that a WebHDFS server offers. `settings` has defaults for new files."""

    name_node: NameNodeDoor
    token: str
    settings: BlockSettings
    clock: RunClock
    tls: Tls | None = None

    async def plane(self) -> DataPlane:
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
        return self.store.name_node

    @property
    def user(self) -> str:
        """Return the request's user or a default. The name is not verified."""
        return self.text("doas") or self.text("user.name") or USER

    def text(self, name: str) -> str | None:
        """Return a parameter, or None if it is missing, empty or `null`."""
        value = self.request.query.get(name)
        return None if value in (None, "", "null") else value

    def needed(self, name: str, what: str) -> str:
        """Return a required parameter; `what` describes it in the BadPath."""
        value = self.text(name)
        if value is None:
            raise bad_value(name, "nothing", what)
        return value

    def number(self, name: str, default: Any, least: int = 0) -> Any:
        """Return an integer parameter or `default`. Raises BadPath if it is below `least` or no integer."""
        text = self.text(name)
        if text is None:
            return default
        if not text.isdecimal() or int(text) < least:
            raise bad_value(name, text, f"a whole number of at least {least}")
        return int(text)

    def flag(self, name: str) -> bool:
        return self.request.query.get(name, "false").lower() == "true"


Operation = Callable[[RestCall], Awaitable[web.StreamResponse]]
Operations = Mapping[tuple[str, str], Operation]
"""Handlers by method and `op`."""


def bad_value(name: str, given: str, expected: str) -> BadPath:
    """Return the exception for a bad parameter, worded as in HttpFS."""
    return BadPath(f'Invalid value for webhdfs parameter "{name}": {given}, expected {expected}')


def done(value: bool) -> web.Response:
    """Return {"boolean": value}."""
    return web.json_response({"boolean": value})


# Translation of the block store's errors for Hadoop's clients: HTTP status, Java class and message.

_ILLEGAL = "java.lang.IllegalArgumentException"
_MISSING = "java.io.FileNotFoundException"

_ROWS: tuple[tuple[type[BlockStoreError], int, str, str, str], ...] = (
    (PathNotFound, 404, _MISSING, ": no such file or directory", "File {0} does not exist."),
    (IsDirectory, 404, _MISSING, ": is a directory", "Path is not a file: {0}"),
    (
        NotDirectory,
        403,
        "org.apache.hadoop.fs.ParentNotDirectoryException",
        ": is a file, not a directory",
        "{0} (is not a directory)",
    ),
    (
        NotEmpty,
        403,
        "org.apache.hadoop.fs.PathIsNotEmptyDirectoryException",
        ": is a directory that is not empty",
        "`{0} is non empty': Directory is not empty",
    ),
    (
        PathExists,
        403,
        "org.apache.hadoop.fs.FileAlreadyExistsException",
        ": exists already",
        "{0} already exists",
    ),
    (BadPath, 400, _ILLEGAL, "", ""),
    (
        BlockUnavailable,
        403,
        "org.apache.hadoop.hdfs.BlockMissingException",
        "",
        "Could not obtain block: {0}",
    ),
    (BlockStoreError, 403, "java.io.IOException", "", ""),
)
"""Exception type, HTTP status, Java class, suffix of schedbed's message, and Hadoop's message for the error."""


def error_response(error: BlockStoreError) -> web.Response:
    """Return the HTTP response for an error of the block store: a RemoteException of Hadoop in JSON."""
    said = str(error)
    status, java_class, ours, theirs = next(row[1:] for row in _ROWS if isinstance(error, row[0]))
    if theirs and said.endswith(ours):
        said = theirs.format(said.removesuffix(ours))
    return web.json_response(_remote_exception(java_class, said), status=status)


def unknown_operation(operation: str) -> web.Response:
    """Return the response for an unknown `op`. By HttpFS's message, clients recognize an HttpFS server."""
    constant = f"org.apache.hadoop.fs.http.client.HttpFSFileSystem.Operation.{operation}"
    said = f'Invalid value for webhdfs parameter "op": {_ILLEGAL}: No enum constant {constant}'
    return web.json_response(_remote_exception(_ILLEGAL, said), status=400)


def refusal() -> Refusal:
    """Return the response to requests without a valid token."""
    java_class = "org.apache.hadoop.security.token.SecretManager$InvalidToken"
    return Refusal("application/json", json.dumps(_remote_exception(java_class, "no valid token")).encode())


def _remote_exception(java_class: str, message: str) -> dict[str, Any]:
    name = java_class.replace("$", ".").rpartition(".")[2]
    return {"RemoteException": {"exception": name, "javaClassName": java_class, "message": message}}


# The run's token in two encodings that Hadoop's clients read: a delegation token, and a credentials file.
#
# The password in both encodings is the run's token, which cannot be canceled and is valid until the run
# ends.

KIND = "WEBHDFS delegation"
MAGIC = b"HDTS\x00"
"""The first bytes of a credentials file in the Writable format."""
ONE_BYTE_MAX = 127
"""The largest length encoded in one byte. Lengths up to 255 are encoded as `TWO_BYTES` and a byte."""
TWO_BYTES = 0x8F


def encoded(token: str, owner: str, service: str) -> str:
    """Return the run's token as of GETDELEGATIONTOKEN. `service` is HOST:PORT of the server."""
    return base64.urlsafe_b64encode(_written(token, owner, service)).rstrip(b"=").decode()


def credentials(token: str, owner: str, service: str) -> bytes:
    """Return a credentials file for HADOOP_TOKEN_FILE_LOCATION. `service` is HOST:PORT of the server."""
    return MAGIC + b"\x01" + _text(service) + _written(token, owner, service) + b"\x00"


def secret_of(shown: bytes) -> bytes:
    """Return the password in an encoded delegation token, or b"" if `shown` is no delegation token."""
    try:
        data = base64.urlsafe_b64decode(shown + b"=" * (-len(shown) % 4))
    except (binascii.Error, ValueError):
        return b""
    parts: list[bytes] = []
    while data:
        length, start = data[0], 1
        if length == TWO_BYTES and len(data) > 1:
            length, start = data[1], 2
        if length > len(data) - start:
            return b""
        parts.append(data[start : start + length])
        data = data[start + length :]
    return parts[1] if len(parts) == 4 and parts[2] == KIND.encode() else b""


def _written(token: str, owner: str, service: str) -> bytes:
    # Version, owner, renewer and real user; then zeros for issue date, maximum date, sequence number and key id.
    identifier = b"\x00" + _text(owner) + _text(owner) + _text("") + b"\x00" * 4
    return _sized(identifier) + _sized(token.encode()) + _text(KIND) + _text(service)


def _text(value: str) -> bytes:
    return _sized(value.encode())


def _sized(data: bytes) -> bytes:
    size = len(data)
    return (bytes([size]) if size <= ONE_BYTE_MAX else bytes([TWO_BYTES, size])) + data
