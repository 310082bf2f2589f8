"""Exception types of the block store, which WebHDFS and the TaskTrackers handle differently."""

from __future__ import annotations


class BlockStoreError(Exception):
    """The block store cannot perform a request. The message names the path or block."""


class BadPath(BlockStoreError):
    """A path is not absolute or contains `.` or `..`, or another argument of the request is invalid."""


class PathNotFound(BlockStoreError):
    """No file or directory exists at the path."""


class PathExists(BlockStoreError):
    """The path already exists, or its file is in the wrong state (complete or being written)."""


class WrongKind(BlockStoreError):
    """The kind or content of the entry at the path does not permit the request.

    Raised itself for a directory moved into itself and for deleting the root.
    """


class IsDirectory(WrongKind):
    """The path is a directory where a file is required."""


class NotDirectory(WrongKind):
    """The path is a file where a directory is required."""


class NotEmpty(WrongKind):
    """The directory to delete is not empty."""


class NoNodes(BlockStoreError):
    """No node can store the block."""


class BlockUnavailable(BlockStoreError):
    """A block could not be read undamaged from any node, or a node failed to store a block sent to it."""


class NotTaken(BlockUnavailable):
    """No node took a block. None of its bytes was used, so that the block can be sent to other nodes."""
