"""Settings for all tests: no time limit of their own for properties, and a counted second try for live tests."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

from tests.harness.retries import Retries

os.environ["TERM"] = "xterm"  # what is printed must not depend on where the tests are run

# A property is not wrong because the machine is busy.
settings.register_profile("schedbed", deadline=None)
settings.load_profile("schedbed")


def pytest_configure(config: pytest.Config) -> None:
    """Count retries in the one process that gets the reports of all others."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Retries(config.rootpath / "build" / "retries.txt"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let live tests be tried twice: one accident of a shared host is no fault of ours, two in a row are."""
    for item in items:
        if item.get_closest_marker("live"):
            item.add_marker(pytest.mark.flaky(reruns=1))
            item.add_marker(pytest.mark.timeout(1200))  # a host that is busy with other things
