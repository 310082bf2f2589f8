"""A bound on what a policy writes to standard output and error in the JobTracker's process."""

from __future__ import annotations

import sys
from threading import get_ident
from typing import Any

from schedbed.scheduler.guard.call_mark import CALL_MARK

TEXT_MAX = 4_000_000
"""Bytes that a policy may write to standard output and standard error together."""


class OutputBound:
    """Makes `write` of text streams raise PermissionError in calls of a policy that has written `most` characters.

    Output outside of the policy's calls is not counted.
    """

    def __init__(self, most: int = TEXT_MAX) -> None:
        self._most = most
        self._written = 0
        self._streams: list[Any] = []

    def begin(self, *streams: Any) -> None:
        """Bound these streams and reset the count, since several policies may run in one process one after
        another."""
        self._written = 0
        for stream in streams:
            if not any(stream is each for each in self._streams):
                self._streams.append(stream)
                self._bound(stream)

    def _bound(self, stream: Any) -> None:
        write = stream.write

        def write_bounded(text: str) -> int:
            if CALL_MARK.inside and get_ident() == CALL_MARK.thread:
                self._written += len(text)
                if self._written > self._most:
                    raise PermissionError(f"the policy wrote more than {self._most:,} bytes of output")
            return write(text)

        stream.write = write_bounded


_OF_THIS_PROCESS = OutputBound()


def bound_output() -> None:
    """Bound the output of the policy that starts now in this process."""
    _OF_THIS_PROCESS.begin(sys.stdout, sys.stderr)
