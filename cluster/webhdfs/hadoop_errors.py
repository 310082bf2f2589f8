"""Translation of the block store's errors for Hadoop's clients: HTTP status, Java class and message."""

from __future__ import annotations

import json
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
from schedbed.cluster.wire.http_gate import Refusal

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
    """Return the HTTP response for an unknown `op` parameter, with the same message as HttpFS.

    Clients recognize an HttpFS server by this message.
    """
    constant = f"org.apache.hadoop.fs.http.client.HttpFSFileSystem.Operation.{operation}"
    said = f'Invalid value for webhdfs parameter "op": {_ILLEGAL}: No enum constant {constant}'
    return web.json_response(_remote_exception(_ILLEGAL, said), status=400)


def refusal() -> Refusal:
    """Return the HTTP response to requests without a valid token."""
    java_class = "org.apache.hadoop.security.token.SecretManager$InvalidToken"
    return Refusal("application/json", json.dumps(_remote_exception(java_class, "no valid token")).encode())


def _remote_exception(java_class: str, message: str) -> dict[str, Any]:
    name = java_class.replace("$", ".").rpartition(".")[2]
    return {"RemoteException": {"exception": name, "javaClassName": java_class, "message": message}}
