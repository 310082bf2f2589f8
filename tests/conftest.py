"""Settings for all tests: no time limit for property tests, and a counted second try for live tests."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.harness.retries import Retries

os.environ["TERM"] = "xterm"  # what is printed must not depend on where the tests are run

# A shell ignores SIGINT for what it starts in the background; what the tests start would go on doing so.
signal.signal(signal.SIGINT, signal.default_int_handler)

# A property is not wrong because the machine is busy.
settings.register_profile("schedbed", deadline=None)
settings.register_profile("fast", deadline=None, max_examples=30)
settings.load_profile("schedbed")


def pytest_configure(config: pytest.Config) -> None:
    """Register the plugin that counts retries, only in the process that receives all workers' reports."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Retries(config.rootpath / "build" / "retries.txt"))


def pytest_collection_finish() -> None:
    """Exclude the objects of the collected tests from garbage collection, which would search them often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)  # tests make and drop much; hypothesis listens to each collection


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run long tests first, so that no worker ends with a long test. Let live tests be tried twice.

    One failure may be caused by the shared host; two in a row count as a fault of schedbed.
    """
    items.sort(key=lambda item: item.get_closest_marker("long") is None)
    for item in items:
        if item.get_closest_marker("live"):
            item.add_marker(pytest.mark.flaky(reruns=1))
            item.add_marker(pytest.mark.timeout(1200))  # a host that is busy with other things


@pytest.fixture(autouse=True)
def one_command() -> Iterator[None]:
    """Forget `--isolated` after each test: a process is one command, but tests call several in theirs."""
    yield
    module = sys.modules.get("schedbed.deploy.simulated.confined_policies")
    if module is not None:
        module.forget()
