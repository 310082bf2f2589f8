"""Redirection of the lines that C++ libraries, such as Ray's, write directly to file descriptor 2."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

STDERR = 2


@contextmanager
def native_lines_in(path: Path) -> Iterator[None]:
    """Redirect the lines that libraries write directly to file descriptor 2 to the file `path` during the
    `with` block.

    Python's `sys.stderr` still writes to the terminal. After the `with` block, a note with the number of
    redirected lines is printed, or the file is removed if it is empty. Nothing is redirected if `sys.stderr`
    does not use file descriptor 2, as in a notebook.
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
