"""Why a command ends without success, beside bad input."""

from __future__ import annotations

import traceback
from pathlib import Path

LINE_MAX = 400
"""Characters of a message that one line shows."""


class RunFailed(Exception):
    """The run itself failed (a job failed, a check did not hold, the cluster broke): one line, exit code 1."""


def one_line(error: BaseException) -> str:
    """Return what an error says, and where it was raised, as one line."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    text = " ".join(str(error).split())
    text = text if len(text) <= LINE_MAX else f"{text[:LINE_MAX]}..."
    return f"{type(error).__name__}{f': {text}' if text else ''}{place}"
