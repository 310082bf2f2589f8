"""A bound on what a policy writes to standard output and error, in a process that it shares with the JobTracker."""

from __future__ import annotations

import sys
from threading import get_ident
from typing import Any

from schedbed.scheduler.guard.call_mark import CALL_MARK

TEXT_MAX = 4_000_000
"""Bytes that a policy may write to standard output and standard error together."""


def bound_output() -> None:
    """Bound what policies write in this process from now on."""
    bound(sys.stdout, sys.stderr)


def bound(*streams: Any, most: int = TEXT_MAX) -> None:
    """Have `write` of these text streams raise PermissionError in calls of a policy that has written `most` characters.

    What is written outside of such calls is not counted.
    """
    written = 0

    def bounded(stream: Any) -> Any:
        write = stream.write

        def write_bounded(text: str) -> int:
            nonlocal written
            if CALL_MARK.inside and get_ident() == CALL_MARK.thread:
                written += len(text)
                if written > most:
                    raise PermissionError(f"the policy wrote more than {most:,} bytes of output")
            return write(text)

        return write_bounded

    for stream in streams:
        stream.write = bounded(stream)
