"""A limit on the output that a policy writes to standard output and error in the JobTracker's process."""

from __future__ import annotations

import sys
from threading import get_ident
from typing import Any

from schedbed.scheduler.guard.call_record import CALL_RECORD

TEXT_MAX = 4_000_000
"""The number of characters that a policy may write to standard output and standard error together."""


class OutputBound:
    """A limit of `most` characters on the output that a policy writes to text streams during its calls.

    A write above the limit raises PermissionError. Output by other code is not counted.
    """

    def __init__(self, most: int = TEXT_MAX) -> None:
        self._most = most
        self._written = 0
        self._streams: list[Any] = []

    def begin(self, *streams: Any) -> None:
        """Limit the output to the given streams, and set the number of written characters to 0.

        Several policies may run in one process, one after the other, and each may use the full limit.
        """
        self._written = 0
        for stream in streams:
            if not any(stream is each for each in self._streams):
                self._streams.append(stream)
                self._bound(stream)

    def _bound(self, stream: Any) -> None:
        write = stream.write

        def write_bounded(text: str) -> int:
            if CALL_RECORD.inside and get_ident() == CALL_RECORD.thread:
                self._written += len(text)
                if self._written > self._most:
                    raise PermissionError(f"the policy wrote more than {self._most:,} characters of output")
            return write(text)

        stream.write = write_bounded


_OF_THIS_PROCESS = OutputBound()


def bound_output() -> None:
    """Limit the output of the policy that starts now in this process.

    Output of earlier policies in this process does not count.
    """
    _OF_THIS_PROCESS.begin(sys.stdout, sys.stderr)
