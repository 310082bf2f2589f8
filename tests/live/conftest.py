"""Live tests share one run without faults to compare with, and begin with the files that take longest."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.command import start_run, write_scenario
from tests.harness.shared import made_once

LONGEST = (
    "policies_live",
    "accidents",
    "hosts",
    "installed",
    "up",
    "hostile",
    "docker",
    "hosts_tls",
    "replicas_live",
    "own_apps_live",
    "live_faults",
)
"""The files of minutes. The second needs the undisturbed run, the first does not: so nobody waits for it."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest files first, so that no worker has one of them alone at the end.

    This requires pytest's option --no-loadscope-reorder.
    """
    order = {f"test_{name}": number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(item.path.stem, len(order)))


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the result folder of the small scenario under fifo, fair and delay, without faults."""

    def make(folder: Path) -> None:
        scenario = write_scenario(folder, policies=["fifo", "fair", {"delay": {"node_wait": "20s"}}])
        command, _ = start_run(folder, scenario, report=True)
        assert command.wait() == 0, command.text()
        assert command.left_behind() == []

    return made_once(tmp_path_factory, "undisturbed", make) / "out"
