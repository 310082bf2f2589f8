"""What the finder finds: a check that does not hold, by its name, with what was seen."""

from __future__ import annotations


class Violation(Exception):
    """`check` names what should hold; a story is shrunk as long as the same check fails."""

    def __init__(self, check: str, seen: str) -> None:
        super().__init__(f"{check}: {seen}")
        self.check = check
        self.seen = seen


def hold(condition: object, check: str, seen: object) -> None:
    """Raises Violation unless the condition is true."""
    if not condition:
        raise Violation(check, str(seen))
