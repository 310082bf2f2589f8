"""Terminal output without the control characters of other people's names, such as those of jobs and traces.

Such characters could set the terminal's title, hide lines or answer as if they were typed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

KEPT = "\t\n"
NONE = {code: None for code in (*range(32), *range(127, 160)) if chr(code) not in KEPT}
"""The control characters to remove, as `str.translate` takes them."""


class PlainTerminal:
    """A text stream that removes control characters. Rich, which does so itself, writes to the stream behind."""

    def __init__(self, stream: Any) -> None:
        self.rich_proxied_file = stream

    def write(self, text: str) -> int:
        return self.rich_proxied_file.write(text.translate(NONE))

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rich_proxied_file, name)


def plain(stream: Any) -> Any:
    """Return a stream that shows no control characters of printed texts if `stream` is a terminal."""
    if stream is None or not stream.isatty():
        return stream
    from rich.control import strip_control_codes

    for table in strip_control_codes.__defaults__ or ():  # Rich would keep escape sequences in texts.
        table.update(NONE)
    return PlainTerminal(stream)


def guard_terminal() -> None:
    """Remove control characters from all that this program prints on a terminal."""
    sys.stdout, sys.stderr = plain(sys.stdout), plain(sys.stderr)
