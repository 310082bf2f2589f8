"""Tools that CI has: where one is missing, a test is skipped on a developer's host and fails in CI."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest

IN_CI = "SCHEDBED_CI"
"""The variable that `.ci/run` sets after it has installed what the tests need."""


def skip_unless_ci(why: str) -> NoReturn:
    """Skip the test because of `why`, or fail it in CI: a red test behind a skip would stay unseen there."""
    if os.environ.get(IN_CI):
        pytest.fail(f"CI should have this: {why}", pytrace=False)
    pytest.skip(why)
