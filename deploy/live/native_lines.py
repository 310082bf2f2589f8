"""Redirection of lines that C++ libraries write directly to standard error, such as Ray's own messages."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

STDERR = 2


@contextmanager
def native_lines_in(path: Path) -> Iterator[None]:
    """Redirect lines that libraries write directly to standard error to the file `path`, during the block.

    At the end, print a note about the number of lines, or remove the file if it is empty. Python's
    `sys.stderr` still writes to the terminal. Do nothing if standard error is not file descriptor 2, as in a
    notebook.
    """
    if not _is_plain():
        yield
        return
    sys.stderr.flush()
    terminal = os.dup(STDERR)
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
    os.dup2(log, STDERR)
    os.close(log)
    before = sys.stderr
    sys.stderr = os.fdopen(terminal, "w", buffering=1, encoding=before.encoding, errors=before.errors)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(terminal, STDERR)
        sys.stderr.close()
        sys.stderr = before
        _tell(path)


def _is_plain() -> bool:
    try:
        return sys.stderr.fileno() == STDERR
    except (AttributeError, OSError, ValueError):
        return False


def _tell(path: Path) -> None:
    lines = path.read_bytes().count(b"\n")
    if lines:
        print(f"note: Ray wrote {lines} lines about itself, kept in {path}", file=sys.stderr)
    else:
        path.unlink()
