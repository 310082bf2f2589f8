"""Keeps a log within bounds, however much a user's code prints: the end stays, what was before is left out."""

from __future__ import annotations

import os

LOG_BYTES = 2**20  # a log that is longer is cut
KEPT_BYTES = 64 * 1024
SHOWN_LINES = 3
SHOWN_CHARS = 160


def trim(log: int) -> None:
    """Cut the file behind a descriptor that is open for reading and appending, when it has grown too long.

    Whoever appends meanwhile may lose a line.
    """
    length = os.fstat(log).st_size
    if length <= LOG_BYTES:
        return
    kept = os.pread(log, KEPT_BYTES, length - KEPT_BYTES)
    os.ftruncate(log, 0)
    os.write(log, b"... %d bytes are left out\n" % (length - len(kept)) + kept)


def last_lines(log: int) -> str:
    """Return the last lines of the file, on one line."""
    length = os.fstat(log).st_size
    text = os.pread(log, KEPT_BYTES, max(0, length - KEPT_BYTES)).decode(errors="replace")
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    said = " | ".join(lines[-SHOWN_LINES:])
    return said if len(said) <= SHOWN_CHARS else f"...{said[3 - SHOWN_CHARS :]}"
