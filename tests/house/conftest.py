"""Print the report on the code's structure at the end of `pytest tests/house`."""

from __future__ import annotations

from typing import Any

from tests.house.structure import report


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the figures that `test_rooms` asserts."""
    terminalreporter.section("structure")
    terminalreporter.write_line(report())
