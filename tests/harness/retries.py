"""Pytest plugin that counts retried tests, logs them with their causes, and fails a session with too many."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

# Number of characters kept of the first try's output, from the end, which names the error.
SAID_MAX = 4000
# One retry in 100 tests may be caused by a busy host; more retries point to a bug.
TESTS_A_RETRY = 100
# Only sessions of live tests have retries; they are small parts of a run of thousands of tests.
LEAST_ALLOWED = 3


class Retries:
    """The retries of one session; the plugin runs in the process that receives all workers' reports."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.ran: set[str] = set()
        self.retried: list[pytest.TestReport] = []

    @property
    def allowed(self) -> int:
        """Return the number of retries allowed: one per hundred tests run, at least three."""
        return max(LEAST_ALLOWED, len(self.ran) // TESTS_A_RETRY)

    @property
    def too_many(self) -> bool:
        """Return whether the session has more retries than allowed."""
        return len(self.retried) > self.allowed

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record that a test ran, and a failed try that pytest will repeat."""
        self.ran.add(report.nodeid)
        if report.outcome == "rerun":
            self.retried.append(report)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Append the retries to the log file; fail a session with too many, even if all tests passed."""
        if not self.retried:
            return
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with self.file.open("a") as file:
            file.writelines(f"{report.nodeid}\n{_cause(report)}\n\n" for report in self.retried)
        if self.too_many and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the retries with their causes, and whether their number fails the session."""
        if not self.retried:
            return
        for report in self.retried:
            terminalreporter.write_sep("_", f"first try of {report.nodeid}")
            terminalreporter.write_line(_cause(report))
        verdict = ": fails the run" if self.too_many else ""
        terminalreporter.write_line(
            f"{len(self.retried)} of {len(self.ran)} tests tried again ({self.allowed} tolerated){verdict}; "
            f"the causes are in {self.file}"
        )


def _cause(report: pytest.TestReport) -> str:
    """Return the last characters of a failed try's report, indented."""
    said = report.longreprtext[-SAID_MAX:]
    return "\n".join(f"    {line}" for line in said.splitlines())
