"""Conversion of exceptions that one process raises and another handles.

Only class name and message are sent.
"""

from __future__ import annotations

from collections.abc import Mapping

from schedbed.cluster.blocks.block_errors import BlockStoreError
from schedbed.cluster.masters import MasterGone
from schedbed.tasks.errors import BadInput


class CallFailed(Exception):
    """The remote process raised an exception that callers do not expect.

    The log of that process has the traceback.
    """


_KNOWN: Mapping[str, type[Exception]] = {
    kind.__name__: kind for kind in (MasterGone, BadInput, BlockStoreError, *BlockStoreError.__subclasses__())
}


def error_to_wire(error: Exception) -> list[str]:
    """Return the class name and the message of an exception."""
    return [type(error).__name__, str(error)]


def is_expected(error: Exception) -> bool:
    """Return whether callers of remote calls expect exceptions of this class."""
    return type(error).__name__ in _KNOWN


def error_from_wire(name: str, words: str) -> Exception:
    """Return an exception of the class `name` with the message `words`, as raised by the remote process.

    If the class is not one that callers expect, return a CallFailed.
    """
    known = _KNOWN.get(name)
    return CallFailed(f"{name}: {words}") if known is None else known(words)
