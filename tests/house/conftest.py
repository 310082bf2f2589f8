"""Prints the report of the structure at the end of `pytest tests/house`."""

from __future__ import annotations

from typing import Any

from tests.house.structure import report


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print what the tests of this folder have counted."""
    terminalreporter.section("structure")
    terminalreporter.write_line(report())
