"""Converts a text to XML, block by block, and writes it back (liu2015, 3.1): much I/O, little computing, no reduces.

A line is a row, its fields between tabs are cells. What XML cannot hold (control characters, bytes that are no UTF-8)
becomes the replacement character U+FFFD.
"""

from __future__ import annotations

import re

from schedbed.tasks.apps.app import App
from schedbed.tasks.mapper import MapTask

HEAD = b'<?xml version="1.0" encoding="UTF-8"?>\n<rows>\n'
TAIL = b"</rows>\n"
NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
ESCAPES = ((b"&", b"&amp;"), (b"<", b"&lt;"), (b">", b"&gt;"), (b"\r", b"&#13;"), (b"\t", b"</c><c>"))


def rows_of(chunk: bytes) -> bytes:
    """Whole lines as rows of XML."""
    text = NOT_XML.sub("\ufffd", chunk.decode(errors="replace")).encode()
    for plain, escaped in ESCAPES:
        text = text.replace(plain, escaped)
    lines = text.removesuffix(b"\n").replace(b"\n", b"</c></row>\n<row><c>")
    return b"<row><c>%b</c></row>\n" % lines


def _map(task: MapTask) -> None:
    output = task.create()
    output.write(HEAD)
    for chunk in task.chunks("text"):
        rows = rows_of(bytes(chunk))
        output.write(rows)
        task.node.meter.add("records_out", rows.count(b"<row>"))
    output.write(TAIL)
    output.close()


APP = App(
    name="etl",
    paper="liu2015",
    summary="converts lines of text to XML, <row><c>field</c>...</row> with tabs between fields; a document a map",
    input="text",
    reduces="never",
    run_map=_map,
)
