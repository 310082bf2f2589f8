"""The errors of the block store as types, which WebHDFS and the trackers distinguish."""

from __future__ import annotations


class BlockStoreError(Exception):
    """The block store cannot carry out a request. The message names the path or block."""


class BadPath(BlockStoreError):
    """The path is not an absolute path of plain names."""


class PathNotFound(BlockStoreError):
    """No file or directory has that path."""


class PathExists(BlockStoreError):
    """The path already exists."""


class WrongKind(BlockStoreError):
    """The existing path is not of the required kind, or cannot be moved to the destination."""


class IsDirectory(WrongKind):
    """A directory where a file is needed."""


class NotDirectory(WrongKind):
    """A file where a directory is needed."""


class NotEmpty(WrongKind):
    """A directory that holds something."""


class NoNodes(BlockStoreError):
    """No node can take the block."""


class BlockUnavailable(BlockStoreError):
    """No node returned the whole block with correct checksums."""
