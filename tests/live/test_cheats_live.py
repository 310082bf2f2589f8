"""Policies that cheat in a live JobTracker: each is named, or its run fails, and none harms another one's rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from schedbed.deploy.results.runfile import RunFile
from tests.deploy.cheats.cheats import PAYING, text_of
from tests.deploy.cheats.test_cheats import SCENARIO
from tests.harness.command import start_run, write_scenario

pytestmark = pytest.mark.live

NO_SUMMARY = "a job's row forged"
"""Metrics cannot be computed from its rows, so the command fails with a line that names them."""


def cheat(folder: Path, *names: str) -> tuple[str, list[str]]:
    """Run `fifo` and each cheat in one command. Return why the command failed, and the policies' SPECs."""
    own: list[str] = []
    for number, name in enumerate(names):
        path = folder / f"cheat{number}.py"
        path.write_text(text_of(name, str(folder)))
        own.append(f"{path}:Mine")
    path = write_scenario(folder, **SCENARIO | {"scale": 0.1, "sizes": "true", "policies": ["fifo", *own]})
    command, _ = start_run(folder, path)
    assert command.wait() == 1, command.text()
    assert command.left_behind() == []
    return command.text().rpartition("schedbed: ")[2], own


def test_each_cheat_is_named(tmp_path: Path) -> None:
    names = [name for name in PAYING if name != NO_SUMMARY]
    why, own = cheat(tmp_path, *names)
    states = {record.policy: record.state for record in RunFile.load(tmp_path / "out").runs}
    for name, spec in zip(names, own, strict=True):
        # What the last one multiplies are FIFO's rows, not its own.
        named = f"{spec}: Impossible" in why or states[spec] == "failed"
        assert named or name == "another policy's rows multiplied", (name, why)
    assert "fifo: Impossible: rows of" in why


def test_rows_that_no_metric_can_take_end_in_a_line(tmp_path: Path) -> None:
    why, _ = cheat(tmp_path, NO_SUMMARY)
    assert "Impossible: job job_0002 has two rows" in why
