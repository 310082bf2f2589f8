"""The exception for bad input, used by all modules."""

from __future__ import annotations

DISK_FULL = "disk full"
"""The reason of attempts that failed because the disk of their node was full."""


class BadInput(Exception):
    """Raised for bad input from the user; the command then ends with exit code 2.

    The message is one line: the file, the line or key, the value, and the expected form.
    """
