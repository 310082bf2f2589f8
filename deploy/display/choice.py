"""Selection of the display for a live run: a picture that is redrawn on a terminal, or plain lines."""

from __future__ import annotations

import sys
from typing import TextIO

from schedbed.deploy.display.display import Display, PlainLines


def make_display(*, live: bool = True, out: TextIO | None = None) -> Display:
    """Return the display of a live run, which writes to `out` (by default standard output).

    If `live` is True and `out` is a terminal, the display is a picture that is redrawn. Otherwise it prints
    plain lines.
    """
    stream = out or sys.stdout
    if live and stream.isatty():
        from schedbed.deploy.display.picture import Picture

        return Picture(stream)
    return PlainLines(stream)
