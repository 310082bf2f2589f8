"""Errors that a person can act on."""

from __future__ import annotations

DISK_FULL = "disk full"
"""Why an attempt failed whose node's disk took no more."""


class BadInput(Exception):
    """What the user gave is wrong: one line naming file, line or key, the value and what was expected."""
