"""Counts tests that were tried twice: each retry goes into a file with its cause, and too many fail the run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

# Characters of the first try's output that are kept; the end names the error.
SAID_MAX = 4000
# One retry in this many tests is an accident of the host; more of them are faults to be found.
TESTS_A_RETRY = 100
# The sessions of live tests are small parts of a run of thousands of tests, and the only ones with retries.
LEAST_ALLOWED = 3


class Retries:
    """The retries of one session: a plugin of the process that sees the reports of all workers."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.ran: set[str] = set()
        self.retried: list[pytest.TestReport] = []

    @property
    def allowed(self) -> int:
        """Return the number of retries allowed for the tests that ran: one in a hundred, three in a small session."""
        return max(LEAST_ALLOWED, len(self.ran) // TESTS_A_RETRY)

    @property
    def too_many(self) -> bool:
        """Return whether the session has more retries than allowed."""
        return len(self.retried) > self.allowed

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a test that has started, and a failed try that will be repeated."""
        self.ran.add(report.nodeid)
        if report.outcome == "rerun":
            self.retried.append(report)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Append the retries to the file; fail a session with too many, even if all tests passed."""
        if not self.retried:
            return
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with self.file.open("a") as file:
            file.writelines(f"{report.nodeid}\n{_cause(report)}\n\n" for report in self.retried)
        if self.too_many and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the same causes, and whether their number fails the run."""
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
    """Return the end of a failed try's report, indented."""
    said = report.longreprtext[-SAID_MAX:]
    return "\n".join(f"    {line}" for line in said.splitlines())
