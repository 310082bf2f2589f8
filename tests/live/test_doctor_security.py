"""`doctor --security`: all servers of a live cluster refuse strangers, and nothing is left behind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.harness.command import Command

pytestmark = pytest.mark.live


def test_strangers_get_nowhere_and_nothing_is_left(tmp_path: Path) -> None:
    command = Command(tmp_path, "doctor", "--security")
    assert command.wait() == 0, command.text()
    text = command.text()
    for what in ("Ray's GCS", "Ray's raylet", "agent n1", "agent n2", "namenode.socket", "WebHDFS", "API of"):
        assert what in text, text
    assert "all on loopback or in the file system" in text
    assert " open " not in text
    assert ("needs root" in text) == (os.getuid() != 0)
    assert command.left_behind() == []
