"""Why a command ends without success, beside bad input."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LINE_MAX = 400
"""Characters of a message that one line shows."""


class RunFailed(Exception):
    """The run itself failed (a job failed, a check did not hold, the cluster broke): one line, exit code 1."""


@contextmanager
def port_told(option: str, port: int) -> Iterator[None]:
    """Raise RunFailed with the option and the port when something in the block cannot listen there."""
    try:
        yield
    except OSError as error:
        raise RunFailed(f"{option} {port}: {error.strerror or error}") from None


def one_line(error: BaseException) -> str:
    """Return what an error says, and where it was raised, as one line."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    text = " ".join(str(error).split())
    text = text if len(text) <= LINE_MAX else f"{text[:LINE_MAX]}..."
    return f"{type(error).__name__}{f': {text}' if text else ''}{place}"
