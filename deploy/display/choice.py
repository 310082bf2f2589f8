"""The choice of a display by where the output goes."""

from __future__ import annotations

import sys
from typing import TextIO

from schedbed.deploy.display.display import Display, PlainLines


def make_display(*, live: bool = True, out: TextIO | None = None) -> Display:
    """Return the live picture if `out` (standard output) is a terminal and `live`, else plain lines."""
    stream = out or sys.stdout
    if live and stream.isatty():
        from schedbed.deploy.display.picture import Picture

        return Picture(stream)
    return PlainLines(stream)
