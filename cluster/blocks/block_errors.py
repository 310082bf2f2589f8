"""What can go wrong in the block store, as types that the WebHDFS door and the trackers tell apart."""

from __future__ import annotations


class BlockStoreError(Exception):
    """The block store cannot do what was asked; the message names the path or block."""


class BadPath(BlockStoreError):
    """Not an absolute path of plain names."""


class PathNotFound(BlockStoreError):
    """There is no file or directory of that path."""


class PathExists(BlockStoreError):
    """Something is there already."""


class WrongKind(BlockStoreError):
    """A file where a directory is needed, the other way round, or a directory that is not empty."""


class NoNodes(BlockStoreError):
    """No node can take the block."""


class BlockUnavailable(BlockStoreError):
    """No node gave the block whole and right."""
