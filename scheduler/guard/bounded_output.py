"""A bound on what a policy writes to standard output and error, in a process that it shares with the JobTracker."""

from __future__ import annotations

import sys
from threading import get_ident
from typing import Any, TextIO

from schedbed.scheduler.guard.call_mark import CALL_MARK

TEXT_MAX = 4_000_000
"""Bytes that a policy may write to standard output and standard error together."""


class BoundedOutput:
    """A text stream in which the calls of a policy, whose characters `written` counts, can write `most` only."""

    def __init__(self, stream: TextIO, written: list[int], most: int = TEXT_MAX) -> None:
        self._stream, self._written, self._most = stream, written, most

    def write(self, text: str) -> int:
        """Write the text. Raises PermissionError in a call of a policy that has written too much."""
        if CALL_MARK.inside and get_ident() == CALL_MARK.thread:
            self._written[0] += len(text)
            if self._written[0] > self._most:
                raise PermissionError(f"the policy wrote more than {self._most:,} bytes of output")
        return self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def bound_output() -> None:
    """Bound what policies write in this process from now on."""
    if isinstance(sys.stdout, BoundedOutput):
        return
    written = [0]
    sys.stdout, sys.stderr = (  # pyright: ignore[reportAttributeAccessIssue]
        BoundedOutput(sys.stdout, written),
        BoundedOutput(sys.stderr, written),
    )
