"""Exceptions for failed runs and refused requests, and one-line messages for unexpected errors."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LINE_MAX = 400
"""Longest message shown in one line, in characters."""
FORBIDDEN, TOO_MANY = 403, 429


class RunFailed(Exception):
    """An exception for a failed run, which ends the command with exit code 1. Its message is one line.

    A run fails if a job fails, an output check fails, or the cluster breaks.
    """


class Denied(RunFailed):
    """An exception for a request that is refused because the sender lacks a permission or has used up a
    quota.

    `status` is the HTTP status of the response.
    """

    def __init__(self, line: str, status: int = FORBIDDEN) -> None:
        super().__init__(line)
        self.status = status


@contextmanager
def port_told(option: str, port: int) -> Iterator[None]:
    """Convert an OSError in the `with` block, which opens a server on `port`, to RunFailed.

    The message names the command-line `option` and the port.
    """
    try:
        yield
    except OSError as error:
        raise RunFailed(f"{option} {port}: {error.strerror or error}") from None


def one_line(error: BaseException) -> str:
    """Return the error's message as one line, with the file and line that raised the error."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    text = " ".join(str(error).split())
    text = text if len(text) <= LINE_MAX else f"{text[:LINE_MAX]}..."
    return f"{type(error).__name__}{f': {text}' if text else ''}{place}"
