"""A limit on the size of a log of user code. Only the end of the log is kept."""

from __future__ import annotations

import os

LOG_BYTES = 2**20  # A longer log is shortened to KEPT_BYTES.
KEPT_BYTES = 64 * 1024
SHOWN_LINES = 3
SHOWN_CHARS = 160


def trim(log: int) -> None:
    """Delete a log's beginning above `LOG_BYTES`. Another process that appends meanwhile may lose a line."""
    length = os.fstat(log).st_size
    if length <= LOG_BYTES:
        return
    kept = os.pread(log, KEPT_BYTES, length - KEPT_BYTES)
    os.ftruncate(log, 0)
    os.write(log, b"... %d bytes are left out\n" % (length - len(kept)) + kept)


def last_lines(log: int) -> str:
    """Return the last three lines of a log, joined into one short line for messages."""
    length = os.fstat(log).st_size
    text = os.pread(log, KEPT_BYTES, max(0, length - KEPT_BYTES)).decode(errors="replace")
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    said = " | ".join(lines[-SHOWN_LINES:])
    return said if len(said) <= SHOWN_CHARS else f"...{said[3 - SHOWN_CHARS :]}"
