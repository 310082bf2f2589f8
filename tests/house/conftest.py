"""Print the report on the code's structure at the end of a session that has tested the structure."""

from __future__ import annotations

from typing import Any

from tests.house.structure import report

ASSERTED_BY = "tests/house/test_rooms.py"


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the figures that `test_rooms` asserts."""
    reports = (each for kind in ("passed", "failed") for each in terminalreporter.stats.get(kind, ()))
    if any(each.nodeid.startswith(ASSERTED_BY) for each in reports):
        terminalreporter.section("structure")
        terminalreporter.write_line(report())
