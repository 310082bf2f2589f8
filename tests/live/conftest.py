"""Live tests share one undisturbed run to compare with."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.command import Command, write_scenario


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The result folder of the small scenario under fifo, fair and delay, with outputs."""
    folder = tmp_path_factory.mktemp("undisturbed")
    scenario = write_scenario(folder, policies=["fifo", "fair", {"delay": {"node_wait": "20s"}}])
    command = Command(
        folder, "run", str(scenario), "--out", str(folder / "out"), "--keep-outputs", "--no-live"
    )
    assert command.wait() == 0, command.text()
    assert command.left_behind() == []
    return folder / "out"
