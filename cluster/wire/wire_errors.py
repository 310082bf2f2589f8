"""Exceptions that one process raises and another catches, sent as their names and messages only."""

from __future__ import annotations

from collections.abc import Mapping

from schedbed.cluster.blocks.block_errors import BlockStoreError
from schedbed.cluster.masters import MasterGone
from schedbed.tasks.errors import BadInput


class CallFailed(Exception):
    """The other end failed in a way that no caller expects. Its log has the traceback."""


_KNOWN: Mapping[str, type[Exception]] = {
    kind.__name__: kind for kind in (MasterGone, BadInput, BlockStoreError, *BlockStoreError.__subclasses__())
}


def error_to_wire(error: Exception) -> list[str]:
    """Return the name and the message of an exception."""
    return [type(error).__name__, str(error)]


def is_expected(error: Exception) -> bool:
    """Return whether callers know the type of the exception."""
    return type(error).__name__ in _KNOWN


def error_from_wire(name: str, words: str) -> Exception:
    """Return the exception that the other end raised; CallFailed for an unknown type."""
    known = _KNOWN.get(name)
    return CallFailed(f"{name}: {words}") if known is None else known(words)
