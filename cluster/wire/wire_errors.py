"""Exceptions that one process raises and another catches: by their names and words, nothing else of them travels."""

from __future__ import annotations

from collections.abc import Mapping

from schedbed.cluster.blocks.block_errors import BlockStoreError
from schedbed.cluster.masters import MasterGone
from schedbed.tasks.errors import BadInput


class CallFailed(Exception):
    """The other end failed at a call in a way that no caller was to expect; its log has the traceback."""


_KNOWN: Mapping[str, type[Exception]] = {
    kind.__name__: kind for kind in (MasterGone, BadInput, BlockStoreError, *BlockStoreError.__subclasses__())
}


def error_to_wire(error: Exception) -> list[str]:
    """Return the name and the words of an exception."""
    return [type(error).__name__, str(error)]


def is_expected(error: Exception) -> bool:
    """Return whether the exception is one of those that callers know."""
    return type(error).__name__ in _KNOWN


def error_from_wire(name: str, words: str) -> Exception:
    """Return the exception that was raised at the other end, CallFailed for one that no caller knows."""
    known = _KNOWN.get(name)
    return CallFailed(f"{name}: {words}") if known is None else known(words)
