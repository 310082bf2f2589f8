"""A parser for input that consists of pages, one per line: `title<TAB>label<TAB>text`."""

from __future__ import annotations

from collections.abc import Iterator

from schedbed.tasks.errors import BadInput

Page = tuple[bytes, bytes, bytes]
"""The title, label and text of a page."""


def pages(chunk: bytes) -> Iterator[Page]:
    """Yield the pages of whole lines, without empty ones. Raises BadInput for a malformed line."""
    for line in chunk.split(b"\n"):
        fields = line.split(b"\t", 2)
        if len(fields) == 3:
            yield fields[0], fields[1], fields[2]
        elif line.strip():
            shown = line[:40].decode(errors="backslashreplace")
            raise BadInput(f"a line that is no page: {shown!r}, expected title<TAB>label<TAB>text")
