"""A test that passes at its second try is recorded with the cause of its first failure.

Too many of them fail the run.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal, cast

import pytest

from tests.harness.retries import Retries

ROOT = Path(__file__).parents[2]
SETTINGS = "[pytest]\nmarkers = live\naddopts = --strict-markers\n"
SUITE = """
from pathlib import Path
import pytest

def test_that_only_computes():
    pass

@pytest.mark.live
@pytest.mark.parametrize("number", range({flaky}))
def test_flaky(number):
    tried = Path(__file__).with_name(f"tried_{{number}}")
    first = not tried.exists()
    tried.touch()
    assert not first, f"cause {{number}}"
"""


def run_suite(folder: Path, flaky: int, *options: str) -> tuple[int, str, str]:
    """Run pytest in `folder` on a suite in which `flaky` tests fail once.

    Return the exit code, the output, and the text of the file of retries.
    """
    (folder / "pytest.ini").write_text(SETTINGS)
    (folder / "test_suite.py").write_text(SUITE.format(flaky=flaky))
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.conftest", *options],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": paths, "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
    )
    file = folder / "build" / "retries.txt"
    return done.returncode, done.stdout + done.stderr, file.read_text() if file.exists() else ""


def test_one_retry_is_written_down_and_tolerated(tmp_path: Path) -> None:
    code, said, file = run_suite(tmp_path, 1)
    assert code == 0, said
    assert "1 of 2 tests tried again (3 tolerated)" in said and "fails the run" not in said
    assert file.startswith("test_suite.py::test_flaky[0]\n") and "AssertionError: cause 0" in file


@pytest.mark.long  # three processes of pytest
def test_four_retries_among_few_tests_fail_the_run_of_two_workers(tmp_path: Path) -> None:
    code, said, file = run_suite(tmp_path, 4, "-n", "2")
    assert code == 1, said
    assert "5 passed, 4 rerun" in said and "4 of 5 tests tried again (3 tolerated): fails the run" in said
    assert all(f"cause {number}" in file for number in range(4))


def report(nodeid: str, outcome: Literal["passed", "rerun"]) -> pytest.TestReport:
    """Return the report that pytest sends to the session about one try of the test `nodeid`."""
    return pytest.TestReport(nodeid, ("", 0, ""), {}, cast(Any, outcome), "said", "call")


@pytest.mark.parametrize(("retries", "too_many"), [(0, False), (5, False), (6, True)])
def test_one_test_in_a_hundred_may_be_tried_again(tmp_path: Path, retries: int, too_many: bool) -> None:
    counted = Retries(tmp_path / "retries.txt")
    for number in range(500):
        if number < retries:
            counted.pytest_runtest_logreport(report(f"test_{number}", "rerun"))
        counted.pytest_runtest_logreport(report(f"test_{number}", "passed"))
    assert (counted.allowed, counted.too_many) == (5, too_many)
