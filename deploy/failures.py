"""The exceptions for a failed run and a refused request, and one-line messages for unexpected errors."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LINE_MAX = 400
"""Longest message shown in one line, in characters."""
FORBIDDEN, TOO_MANY = 403, 429


class RunFailed(Exception):
    """A failed run (exit code 1): a job failed, an output check failed, or the cluster broke.

    The message is one line.
    """


class Denied(RunFailed):
    """A refused request: the sender lacks the permission or the quota.

    `status` is the HTTP status of the answer.
    """

    def __init__(self, line: str, status: int = FORBIDDEN) -> None:
        super().__init__(line)
        self.status = status


@contextmanager
def port_told(option: str, port: int) -> Iterator[None]:
    """Raise RunFailed for an OSError of the block, which listens on `port`.

    The message names the option and the port.
    """
    try:
        yield
    except OSError as error:
        raise RunFailed(f"{option} {port}: {error.strerror or error}") from None


def one_line(error: BaseException) -> str:
    """Return an error's message with the file and line where the error was raised, as one line."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    text = " ".join(str(error).split())
    text = text if len(text) <= LINE_MAX else f"{text[:LINE_MAX]}..."
    return f"{type(error).__name__}{f': {text}' if text else ''}{place}"
