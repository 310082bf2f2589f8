"""Conversion of exceptions that one process raises and another catches: only names and messages are sent."""

from __future__ import annotations

from collections.abc import Mapping

from schedbed.cluster.blocks.block_errors import BlockStoreError
from schedbed.cluster.masters import MasterGone
from schedbed.tasks.errors import BadInput


class CallFailed(Exception):
    """The remote process failed with an exception that no caller expects. Its log has the traceback."""


_KNOWN: Mapping[str, type[Exception]] = {
    kind.__name__: kind for kind in (MasterGone, BadInput, BlockStoreError, *BlockStoreError.__subclasses__())
}


def error_to_wire(error: Exception) -> list[str]:
    """Return the class name and the message of an exception."""
    return [type(error).__name__, str(error)]


def is_expected(error: Exception) -> bool:
    """Return whether the exception has a class that callers handle."""
    return type(error).__name__ in _KNOWN


def error_from_wire(name: str, words: str) -> Exception:
    """Return the exception that the remote process raised, from its name and message.

    An unknown name gives CallFailed.
    """
    known = _KNOWN.get(name)
    return CallFailed(f"{name}: {words}") if known is None else known(words)
