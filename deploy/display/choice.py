"""Selection of the display for a live run: a live picture on a terminal, plain lines for files and pipes."""

from __future__ import annotations

import sys
from typing import TextIO

from schedbed.deploy.display.display import Display, PlainLines


def make_display(*, live: bool = True, out: TextIO | None = None) -> Display:
    """Return the live picture if `live` is True and `out` (default: stdout) is a terminal; else plain
    lines.
    """
    stream = out or sys.stdout
    if live and stream.isatty():
        from schedbed.deploy.display.picture import Picture

        return Picture(stream)
    return PlainLines(stream)
