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
    """Raised if a job, an output check or the cluster failed; the command then ends with exit code 1.

    The message is one line.
    """


class Denied(RunFailed):
    """A request refused for a missing permission or a used-up quota, with the HTTP `status`."""

    def __init__(self, line: str, status: int = FORBIDDEN) -> None:
        super().__init__(line)
        self.status = status


@contextmanager
def port_told(option: str, port: int) -> Iterator[None]:
    """Convert an OSError of opening a server to RunFailed that names the option and port."""
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
