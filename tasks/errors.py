"""Errors that a person can act on."""

from __future__ import annotations


class BadInput(Exception):
    """What the user gave is wrong: one line naming file, line or key, the value and what was expected."""
