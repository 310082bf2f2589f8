"""The exception for a failed check, with the check's name and the values observed."""

from __future__ import annotations


class Violation(Exception):
    """Raised when a check fails. `check` names the rule that does not hold, `seen` the values observed.

    A test scenario is simplified while the check of the same name fails.
    """

    def __init__(self, check: str, seen: str) -> None:
        super().__init__(f"{check}: {seen}")
        self.check = check
        self.seen = seen


def hold(condition: object, check: str, seen: object) -> None:
    """Raise Violation unless the condition is true."""
    if not condition:
        raise Violation(check, str(seen))
