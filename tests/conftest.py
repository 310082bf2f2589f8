"""Settings for all tests: a property is not wrong because the machine is busy, so none has a time limit of its own, and
a live test that failed gets a second try, which the summary names (`RERUN`), and more time than others."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import settings

os.environ["TERM"] = "xterm"  # what is printed must not depend on where the tests are run

SAID_MAX = 4000

settings.register_profile("schedbed", deadline=None)
settings.load_profile("schedbed")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Live tests may be tried twice: one accident of a shared host is no fault of ours, two in a row are."""
    for item in items:
        if item.get_closest_marker("live"):
            item.add_marker(pytest.mark.flaky(reruns=1))
            item.add_marker(pytest.mark.timeout(1200))  # a host that is busy with other things


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """What the first try of a test that was tried again said: it must not be lost when the second passes."""
    for report in terminalreporter.getreports("rerun"):
        terminalreporter.write_sep("_", f"first try of {report.nodeid}")
        terminalreporter.write_line(str(report.longrepr)[-SAID_MAX:])
