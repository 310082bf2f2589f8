"""`--address` without a cluster: one line and exit code 2; nothing is started and no folder is created."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.command import Command, write_scenario

pytestmark = pytest.mark.live


@pytest.mark.parametrize(
    ("address", "options", "said"),
    [
        (
            "127.0.0.1:1",
            (),
            "no Ray cluster answers ([Errno 111] Connection refused), expected a running one",
        ),
        ("here", (), "no Ray cluster answers (Invalid address format: here), expected a running one"),
        ("ray://127.0.0.1:10001", (), "Ray's client is not supported, expected auto or host:port"),
        ("127.0.0.1:1", ("--machines", "sim"), "no Ray cluster answers ([Errno 111] Connection refused)"),
    ],
)
def test_no_cluster_is_told_in_a_line(
    tmp_path: Path, address: str, options: tuple[str, ...], said: str
) -> None:
    scenario, out = str(write_scenario(tmp_path)), tmp_path / "out"
    command = Command(tmp_path, "run", scenario, "--out", str(out), "--address", address, *options)
    assert command.wait() == 2
    (line,) = command.text().splitlines()
    assert line.startswith("schedbed: --address") and said in line
    assert not out.exists() and command.left_behind() == []
